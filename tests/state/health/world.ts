// A book of health on a clock that is moved by hand.
import type { HealthEvent } from '../../../src/domain/events/health.ts'
import { type HealthBook, openHealth } from '../../../src/state/health/book.ts'
import type { HealthCall } from '../../../src/state/health/call.ts'
import type { CatalogueEntry } from '../../../src/state/port.ts'
import { catalogueOf, entry } from '../../inference/gateway.ts'

export interface World {
  readonly book: HealthBook
  readonly events: HealthEvent[]
  nowMs: number
  after(ms: number): void
  /** Begins a call that must be allowed. */
  call(row: CatalogueEntry, force?: boolean): HealthCall
  fail(row: CatalogueEntry, times?: number, settings?: Parameters<HealthBook['begin']>[1]): void
  succeed(row: CatalogueEntry, times?: number): void
  types(): string[]
}

export const world = (entries: readonly CatalogueEntry[]): World => {
  const events: HealthEvent[] = []
  const here: World = {
    nowMs: 1_000,
    events,
    book: openHealth({
      catalogue: catalogueOf(entries),
      nowMs: () => 1_760_000_000_000 + here.nowMs,
      monotonicMs: () => here.nowMs,
      emit: (event) => events.push(event),
    }),
    after(ms) {
      here.nowMs += ms
    },
    call(row, force = false) {
      const call = here.book.begin(row, undefined, force)
      if (typeof call === 'string') throw new Error(`refused: ${call}`)
      return call
    },
    fail(row, times = 1, settings) {
      for (let i = 0; i < times; i++) {
        const call = here.book.begin(row, settings)
        if (typeof call === 'string') throw new Error(`refused: ${call}`)
        call.end('failure')
      }
    },
    succeed(row, times = 1) {
      for (let i = 0; i < times; i++) here.call(row).end('success')
    },
    types: () => events.filter(({ type }) => type !== 'frame.taken').map(({ type }) => type),
  }
  return here
}

export const ALPHA = entry({ provider: 'alpha' })
export const BETA = entry({ provider: 'beta' })
export const GAMMA = entry({ provider: 'gamma' })
