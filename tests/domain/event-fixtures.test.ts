// Whatever was ever written must be read for ever: one recorded line of each event type, checked by today's code.
import { describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CONTROL_EVENTS, ControlState, eventIsValid, foldDecision } from '../../src/domain/control.ts'
import { decisionMacKey, judge } from '../../src/domain/kernel/decision.ts'
import { type TSchema, Value } from '../../src/lib/schema/schema.ts'
import { readEnvelope } from '../../src/log/envelope.ts'
import { EVENT_CONTRACTS } from '../../src/upkeep/contracts/event-contracts.ts'
import { MASTER_KEY } from '../services/cluster.ts'

const FOLDER = join(import.meta.dir, '../fixtures/events')
const macKey = decisionMacKey(Buffer.from(MASTER_KEY, 'base64'))

const ENVELOPED: Readonly<Record<string, TSchema>> = Object.fromEntries(
  EVENT_CONTRACTS.filter(({ topic }) => topic !== 'control').map(({ type, schema }) => [type, schema]),
)

/** The record as it stood in the log. */
const recorded = (type: string): Uint8Array =>
  new TextEncoder().encode(readFileSync(join(FOLDER, `${type}.json`), 'utf8').trimEnd())

const files = readdirSync(FOLDER).map((name) => name.replace(/\.json$/, ''))

describe('recorded events', () => {
  test('there is one of each type, and no type was forgotten or dropped', () => {
    expect(files.sort()).toEqual([...Object.keys(CONTROL_EVENTS), ...Object.keys(ENVELOPED)].sort())
  })

  test.each(files.filter((type) => type in CONTROL_EVENTS))('%s still counts and folds', (type) => {
    const bytes = recorded(type)
    const { parent } = JSON.parse(new TextDecoder().decode(bytes)) as { parent: string }
    const verdict = judge(parent, bytes, macKey)
    expect(verdict.kind).toBe('counts')
    if (verdict.kind !== 'counts') return
    const event = verdict.decision.events.find((each) => each.type === type)!
    expect(eventIsValid(event)).toBe(true)
    const folded = foldDecision(new ControlState(), verdict.decision, verdict.id, 0)
    expect(folded).toMatchObject({ malformed: null, unknownTypes: [] })
  })

  test.each(files.filter((type) => type in ENVELOPED))('%s is still what its schema says', (type) => {
    const envelope = readEnvelope(recorded(type))
    expect(envelope?.type).toBe(type)
    expect([...Value.Errors(ENVELOPED[type]!, envelope?.data)]).toEqual([])
  })

  test('a record that was changed by one letter no longer counts', () => {
    const bytes = recorded('tenant.created')
    const parent = (JSON.parse(new TextDecoder().decode(bytes)) as { parent: string }).parent
    const changed = new TextEncoder().encode(
      new TextDecoder().decode(bytes).replace('Acme', 'Acne').replace('Default', 'Defaulr'),
    )
    expect(judge(parent, changed, macKey).kind).toBe('forged')
  })
})
