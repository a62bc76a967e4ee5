// A writer of decisions beside an oracle: every acknowledged row must be there, once.
import type { GatewayProcess } from '../../services/gateway.ts'

export interface TenantWriter {
  /** Slugs that were answered with 201. */
  readonly told: ReadonlySet<string>
  stop(): Promise<void>
  /** With what the gateway lists now. */
  compare(): Promise<{ readonly told: number; readonly lost: number; readonly doubled: number }>
}

const PAGE = 1_000

export const startTenantWriter = (gateway: GatewayProcess, name: string, everyMs = 25): TenantWriter => {
  const prefix = `${name.replaceAll('_', '-')}-${Math.random().toString(36).slice(2, 8)}`
  const told = new Set<string>()
  let running = true
  const writing = (async () => {
    for (let number = 0; running; number++) {
      const slug = `${prefix}-${number}`
      const answer = await gateway
        .request('/admin/v1/tenants', {
          body: { slug, name: 'written under faults' },
          signal: AbortSignal.timeout(20_000),
        })
        .catch(() => null)
      await answer?.text().catch(() => {})
      if (answer?.status === 201) told.add(slug)
      await Bun.sleep(everyMs)
    }
  })()
  return {
    told,
    async stop() {
      running = false
      await writing
    },
    async compare() {
      const found = new Map<string, number>()
      for (let offset = 0; ; offset += PAGE) {
        const answer = await gateway.request(`/admin/v1/tenants?limit=${PAGE}&offset=${offset}`)
        const { tenants } = (await answer.json()) as { tenants: { slug: string }[] }
        for (const { slug } of tenants) found.set(slug, (found.get(slug) ?? 0) + 1)
        if (tenants.length < PAGE) break
      }
      const mine = [...found].filter(([slug]) => slug.startsWith(prefix))
      return {
        told: told.size,
        lost: [...told].filter((slug) => !found.has(slug)).length,
        doubled: mine.filter(([, count]) => count > 1).length,
      }
    },
  }
}
