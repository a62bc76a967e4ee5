// Facts about the chain: its name, the partition counts, the newest event version that all instances support. One row,
// id 'chain'.
import { type Static, t } from '../lib/schema/schema.ts'
import type { ControlReader } from './control.ts'
import { type Aggregate, changesOf, eventType, type Stamps } from './kernel/aggregate.ts'
import type { EventRecord } from './kernel/decision.ts'
import { Rejection } from './kernel/rejection.ts'

export const CHAIN_ROW = 'chain'

export const ChainStarted = t.Object({
  chain_id: t.String({ minLength: 1, maxLength: 64 }),
  /**
   * Topic name -> number of partitions, for the topics that have many: what `partitionOf` is modulo. Fixed for the life
   * of the chain.
   */
  partitions: t.Record(t.String({ minLength: 1, maxLength: 128 }), t.Integer({ minimum: 1, maximum: 4096 })),
})
/**
 * All live instances support every event type up to this version: types that were added later (`since`) are written
 * from here on.
 */
export const SchemaActivated = t.Object({ version: t.Integer({ minimum: 2 }) })

export interface ChainRow extends Stamps {
  readonly chain_id: string
  readonly partitions: Readonly<Record<string, number>>
  readonly schema_version: number
}

const rows = changesOf<ChainRow>('chain')

export const chain: Aggregate<ChainRow, ControlReader> = {
  table: 'chain',
  indexes: {},
  events: {
    'chain.started': eventType({ schema: ChainStarted, action: 'create', resource: 'chain', subject: () => CHAIN_ROW }),
    'schema.activated': eventType({
      schema: SchemaActivated,
      action: 'update',
      resource: 'chain',
      subject: () => CHAIN_ROW,
    }),
  },
  evolve(state, { type, data }, meta) {
    const before = state.table('chain').get(CHAIN_ROW)
    if (type === 'chain.started') {
      const { chain_id, partitions } = data as Static<typeof ChainStarted>
      return before === undefined ? rows.created(CHAIN_ROW, { chain_id, partitions, schema_version: 1 }, meta) : []
    }
    const { version } = data as Static<typeof SchemaActivated>
    return before === undefined || version <= before.schema_version
      ? []
      : rows.changed(CHAIN_ROW, before, { schema_version: version }, meta)
  },
}

export type ChainCommand =
  /**
   * `version`: the newest event version of this build, active from the start since no other instance serves from the
   * chain yet; absent: 1.
   */
  | ({ do: 'start'; version?: number } & Static<typeof ChainStarted>)
  /** `known`: the newest version that each live instance announced. */
  | { do: 'activate'; version: number; announced: readonly number[] }

export const decideChain = (state: ControlReader, command: ChainCommand): EventRecord[] => {
  const row = state.table('chain').get(CHAIN_ROW)
  if (command.do === 'start') {
    if (row !== undefined) return []
    const { chain_id, partitions, version = 1 } = command
    const started = { type: 'chain.started', data: { chain_id, partitions } }
    return version > 1 ? [started, { type: 'schema.activated', data: { version } }] : [started]
  }
  if (row === undefined) throw new Rejection('invalid', 'the chain has not been started')
  const { version, announced } = command
  if (version <= row.schema_version) return []
  if (announced.length === 0 || announced.some((one) => one < version)) {
    throw new Rejection('conflict', `not all live instances know the event types of version ${version}`, 'version')
  }
  return [{ type: 'schema.activated', data: { version } }]
}
