// Read models that take one type of event of their topic: every other record is passed over unparsed.
import { type Static, type TSchema, TypeCompiler } from '../src/lib/schema/schema.ts'
import { type EnvelopeBody, envelopeOf, typeFilter } from '../src/log/envelope.ts'
import type { LogRecord } from '../src/log/port.ts'
import type { Folded } from './projection.ts'

type Origin = NonNullable<Folded<never>['origin']>

const NOTHING = { origin: null, rows: [], problem: null } as const

/**
 * How such a model folds a record. `row`: what an event of the type makes. `judgesEnvelopes`: of the models of a topic
 * one sets aside what is no envelope. Pure: the same record gives the same rows.
 */
export const foldOfType = <Schema extends TSchema, Row, Place>(
  type: string,
  schema: Schema,
  row: (data: Static<Schema>, origin: Origin, record: LogRecord, place: Place) => Row,
  judgesEnvelopes = false,
): ((record: LogRecord, place: Place) => Folded<Row>) => {
  const mayBe = typeFilter(type)
  const check = TypeCompiler.Compile(schema)
  const foldEnvelope = ({ instance, epoch, sequence, data }: EnvelopeBody, record: LogRecord, place: Place) => {
    const origin = { instance, epoch, sequence }
    if (check.Check(data)) return { origin, rows: [row(data, origin, record, place)], problem: null }
    return { origin, rows: [], problem: `not a valid ${type}: ${check.Errors(data).First()?.path ?? ''}` }
  }
  return (record, place) => {
    if (!mayBe(record)) return NOTHING
    const envelope = envelopeOf(record)
    if (envelope === null) return judgesEnvelopes ? { ...NOTHING, problem: 'not an envelope' } : NOTHING
    return envelope.type === type ? foldEnvelope(envelope, record, place) : NOTHING
  }
}
