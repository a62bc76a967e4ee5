// B7: every route that reaches an upstream, with a tenant whose budget is spent. B9: one `X-Request-ID` for a thousand
// requests.
// `bun tests/faults/budgets/routes.ts [--requests 1000]`
import { type Figure, numberArgument } from '../control/figures.ts'
import { COST_NANO_USD, type Rig, runRows, tally, usdText } from './rig.ts'

export const routes = async (rig: Rig): Promise<Figure[]> => {
  const [gateway] = rig.gateways
  const { providers } = (await (await gateway!.request('/admin/v1/providers')).json()) as {
    providers: { id: string; name: string }[]
  }
  const provider = providers.find(({ name }) => name === 'up')!.id
  await rig.budget(0, { window: 'day' })
  const message = { role: 'user', content: 'hello' }
  const chat = { model: 'm', messages: [message] }
  // What is refused of a test or a detection is a result of it.
  const calls: readonly (readonly [path: string, body: unknown, status: number])[] = [
    ['/v1/chat/completions', chat, 402],
    ['/v1/chat/completions', { ...chat, stream: true }, 402],
    ['/v1/chat/completions', { ...chat, n: 2, max_tokens: 1 }, 402],
    [`/admin/v1/providers/${provider}/test`, { model: 'm' }, 200],
    [`/admin/v1/providers/${provider}/detect-capabilities`, {}, 200],
  ]
  const before = rig.upstream.billed
  const statuses: number[] = []
  for (const [path, body] of calls) {
    const answer = await gateway!.request(path, { body })
    await answer.arrayBuffer()
    statuses.push(answer.status)
  }
  const spent = rig.upstream.billed - before
  await rig.budget(1_000_000, { window: 'day' })
  return [
    {
      row: 'B7',
      what: `a tenant whose budget is spent, every route that has an upstream complete something (${tally(statuses)})`,
      figure: `routes that spent ${spent} of ${calls.length}`,
      n: calls.length,
      good: spent === 0 && statuses.every((status, i) => status === calls[i]![2]),
    },
  ]
}

export const labels = async (rig: Rig, count: number): Promise<Figure[]> => {
  rig.upstream.share = 1
  const id = await rig.budget(1_000_000, { window: 'week' })
  const { spent_usd: before } = await rig.standing(id)
  const statuses: number[] = []
  for (let from = 0; from < count; from += 50) {
    const some = Array.from({ length: 50 }, (_, i) =>
      rig.chat(rig.gateways[i % rig.gateways.length]!, {}, { 'x-request-id': 'the-same-for-all' }),
    )
    statuses.push(...(await Promise.all(some)))
  }
  const { matches, outcomes } = await rig.verify(id)
  // On a busy machine some requests wait too long for a lease, and are refused for it.
  const served = statuses.filter((status) => status === 200).length
  const charged = Math.round((((await rig.standing(id)).spent_usd - before) * 1e9) / COST_NANO_USD)
  return [
    {
      row: 'B9',
      what: `${count} requests under one \`X-Request-ID\` (${tally(statuses)})`,
      figure:
        `outcomes charged ${charged} of ${served}, found in the log ${outcomes}, ` +
        `${usdText(((served - charged) * COST_NANO_USD) / 1e9)} missing`,
      n: count,
      good: charged === served && served > 0 && outcomes >= served && matches,
    },
  ]
}

if (import.meta.main)
  await runRows(async (rig) => [...(await labels(rig, numberArgument('requests', 1_000))), ...(await routes(rig))], {
    instances: 2,
  })
