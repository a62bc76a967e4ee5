// Provider work over the real dialer and the real kinds, on fakes of the vendors.
import { afterAll, afterEach, beforeAll } from 'bun:test'
import { PROVIDER_DEFAULTS, type ProviderRow } from '../../../src/domain/registry/provider.ts'
import { newIdentity } from '../../../src/http/request-context.ts'
import { gatewayCalls } from '../../../src/inference/gateway-calls.ts'
import { createDialer } from '../../../src/lib/http-client/dialer.ts'
import { KINDS } from '../../../src/providers/kinds.ts'
import { type Budgets, NO_BUDGETS } from '../../../src/state/budgets/budgets.ts'
import type { CatalogueEntry } from '../../../src/state/port.ts'
import { modelCatalogue } from '../../../src/upkeep/models/model-listing.ts'
import { CHECKS, type Check } from '../../../src/upkeep/models/provider-checks.ts'
import { openProviderWork } from '../../../src/upkeep/models/provider-work.ts'
import { catalogueOf, entry, TIP } from '../../inference/gateway.ts'
import { testSpool } from '../../inference/test-spool.ts'
import { startVendors, type Vendor } from '../../services/vendors/vendors.ts'

/** A tenant without budgets. */
export const PAYER = { tenantId: 'ten_1', keyId: 'key_1' }

/** Of a model of which nobody knows what it costs. */
export const UNPRICED = { inputCostPerMillion: null, outputCostPerMillion: null }

export interface Place {
  readonly kind: string
  readonly baseUrl: string | null
  readonly secret?: string | null
  readonly model?: string
  readonly options?: Readonly<Record<string, unknown>>
}

const ROW: ProviderRow = {
  id: 'prov_alpha',
  name: 'alpha',
  kind: 'openai',
  status: 'disabled',
  managed_by: 'api',
  base_url: null,
  ...PROVIDER_DEFAULTS,
  env_bound_to: null,
  credential: null,
  created_at: '2026-01-01T00:00:00.000Z',
  updated_at: '2026-01-01T00:00:00.000Z',
  revision: TIP,
}

/** Called once in a test file: has the vendors started before its tests and stopped after them. */
export const withVendors = () => {
  const vendors = new Map<string, Vendor>()
  beforeAll(() => {
    for (const vendor of startVendors()) vendors.set(vendor.name, vendor)
  })
  afterAll(() => Promise.all([...vendors.values()].map(({ stop }) => stop())))

  const closing: (() => unknown)[] = []
  afterEach(async () => {
    for (const close of closing.splice(0)) await close()
  })

  /** Work on one provider; `entries` are its models, priced so that a token costs something. */
  const workOn = (
    place: Place,
    more: {
      readonly allowPrivate?: boolean
      readonly resolve?: () => Promise<string[]>
      readonly budgets?: Budgets
    } = {},
  ) => {
    const { kind, baseUrl, secret = null, model = 'served', options = {} } = place
    const provider = { ...ROW, kind, base_url: baseUrl, options }
    const models = [
      entry({
        ...{
          provider: 'alpha',
          kind,
          baseUrl: baseUrl ?? '',
          secret,
          options,
          upstreamModel: model,
          name: 'registered',
        },
        ...{ inputCostPerMillion: 3, outputCostPerMillion: 15, capabilities: ['chat'] },
      }),
    ]
    const { allowPrivate = true, resolve, budgets = NO_BUDGETS } = more
    const dialer = createDialer({ allowPrivate, ...(resolve === undefined ? {} : { resolve }) })
    closing.push(() => dialer.close())
    const kindTable = { resolve: (name: string) => KINDS.get(name) ?? null, names: [...KINDS.keys()] }
    const spool = testSpool()
    const catalogue = catalogueOf(models)
    const ask = gatewayCalls({
      live: { status: () => ({ tip: TIP }) as never },
      ...{ catalogue, spool, dial: dialer.dial, kinds: KINDS, nowMs: Date.now, budgets },
      newIdentity: () => newIdentity(new Headers()),
    })
    const listings = modelCatalogue({ dial: dialer.dial, kindTable, secretOf: () => secret, nowMs: Date.now })
    const work = openProviderWork({ dial: dialer.dial, kindTable, modelCatalogue: listings, catalogue, ask })
    closing.push(() => work.close())
    const client = new AbortController()
    const test_ = async (
      checks: readonly Check[] = CHECKS,
      prompt: string | null = null,
      one: CatalogueEntry | null = models[0]!,
    ) => (await work.test(provider, { checks, entry: one, prompt }, PAYER, client.signal)).map(({ shown }) => shown)
    return { work, provider, spool, models, client, test: test_ }
  }

  const placeOf = (name: string, more: Partial<Place> = {}): Place => {
    const { kind, baseUrl, secret, model, options } = vendors.get(name)!
    return { kind, baseUrl, secret, model, options, ...more }
  }

  /** A server that answers everything alike. */
  const answering = (answer: () => Response | Promise<Response>): string => {
    const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: answer })
    closing.push(() => server.stop(true))
    return `http://127.0.0.1:${server.port}/v1`
  }
  return { workOn, placeOf, answering, closing }
}
