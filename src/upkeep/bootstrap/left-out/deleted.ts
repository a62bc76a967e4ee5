// Entries whose row was deleted through the API: a start leaves them out and reports them, until `bootstrap.recreate`
// names them, which makes each anew once.
import type { ControlReader } from '../../../domain/control.ts'
import type { EventRecord } from '../../../domain/kernel/decision.ts'
import { Rejection } from '../../../domain/kernel/rejection.ts'
import { removedBefore } from '../../../domain/removed-rows.ts'
import type { SeedStep } from '../step.ts'

interface Named {
  readonly name?: string
  readonly slug?: string
  readonly tenant_id?: string | null
  readonly provider_id?: string
  readonly scope?: { readonly type: string; readonly id?: string }
  readonly window?: string
  readonly provider?: string
  readonly model?: string
  readonly from?: string
}

/** How `bootstrap.recreate` names the row: its section, its tenant or provider, its name. */
const nameOf = (state: ControlReader, table: string, data: Named): string => {
  const slug = data.tenant_id == null ? undefined : state.table('tenants').get(data.tenant_id)?.slug
  if (table === 'price_corrections') return [table, data.provider, data.model, data.from].join('/')
  const provider = data.provider_id === undefined ? undefined : state.table('providers').get(data.provider_id)?.name
  const target = data.scope?.type === 'tenant' ? undefined : data.scope?.id
  const scope = data.scope === undefined ? [] : [data.window, data.scope.type, target]
  const parts = [table, slug, provider, data.slug ?? data.name, ...scope]
  return parts.filter((part) => part !== undefined && part !== '').join('/')
}

const requireNotDeleted = (state: ControlReader, event: EventRecord, recreate: ReadonlySet<string>): void => {
  const found = removedBefore(state, event)
  if (found === null) return
  const name = nameOf(state, found.table, event.data as Named)
  const isNamed = recreate.has(name.toLowerCase())
  if (isNamed && !found.row.recreated) return
  const mend = found.row.recreated
    ? 'it was made anew once before: make it through the API'
    : `"${name}" under bootstrap.recreate makes it anew once`
  throw new Rejection('conflict', `it was deleted through the API and is left out; ${mend}`)
}

/** Steps that make nothing anew that was deleted, but for what `recreate` names. */
export const withoutDeleted = (steps: readonly SeedStep[], recreate: readonly string[] = []): SeedStep[] => {
  const named = new Set(recreate.map((name) => name.toLowerCase()))
  return steps.map((step) => ({
    ...step,
    decide(state) {
      const events = step.decide(state)
      for (const event of events) requireNotDeleted(state, event, named)
      return events
    },
  }))
}
