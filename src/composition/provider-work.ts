// Puts together what calls providers for operators: the checks of a test, listings, detection, over the same spool,
// dialer and kinds as requests.

import { newIdentity } from '../http/request-context.ts'
import { gatewayCalls } from '../inference/gateway-calls.ts'
import type { Dial } from '../lib/http-client/http-client.ts'
import { wallMs } from '../lib/time/wall-clock.ts'
import { KINDS } from '../providers/kinds.ts'
import type { Budgets } from '../state/budgets/budgets.ts'
import type { KindTable } from '../upkeep/models/kind-table.ts'
import type { ModelCatalogue } from '../upkeep/models/model-listing.ts'
import { openProviderWork, type ProviderWork } from '../upkeep/models/provider-work.ts'
import type { ControlPlane } from './control-plane.ts'
import type { Outcomes } from './outcomes.ts'

export interface WorkDeps {
  readonly control: Pick<ControlPlane, 'live' | 'catalogue'>
  readonly outcomes: Pick<Outcomes, 'spool'>
  readonly kindTable: KindTable
  readonly modelCatalogue: Pick<ModelCatalogue, 'list'>
  readonly dial: Dial
  readonly budgets: Pick<Budgets, 'of' | 'standing'>
}

export const openWork = ({ control, outcomes, kindTable, modelCatalogue, dial, budgets }: WorkDeps): ProviderWork => {
  const { live, catalogue } = control
  const ask = gatewayCalls({
    live,
    catalogue,
    spool: outcomes.spool,
    dial,
    kinds: KINDS,
    budgets,
    newIdentity: () => newIdentity(new Headers()),
    nowMs: wallMs,
  })
  return openProviderWork({ dial, kindTable, modelCatalogue, catalogue, ask })
}
