// A text of the environment that opens nothing any more: a start says so, of which variable, why, and what to do.
import { describe, expect, test } from 'bun:test'
import type { Bootstrap } from '../../../src/domain/bootstrap.ts'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import { ADMIN, type Installation, install, rowsOf } from './installation.ts'

const INFERENCE = 'an-inference-key-of-my-own-choice'
const KEYS = { admin: ADMIN, inference: INFERENCE }
const WORKING = [
  { variable: 'GATEWAY_BOOTSTRAP_ADMIN_KEY', scopes: ['*'] },
  { variable: 'GATEWAY_BOOTSTRAP_INFERENCE_KEY', scopes: ['inference'] },
]
const USUAL = [
  ['bootstrap-admin', 'GATEWAY_BOOTSTRAP_ADMIN_KEY', ADMIN],
  ['bootstrap-inference', 'GATEWAY_BOOTSTRAP_INFERENCE_KEY', INFERENCE],
] as const

const idOf = (at: Installation, name: string) => rowsOf(at, 'keys').findLast((row) => row.name === name)!.id
const ends: readonly [string, (at: Installation, id: string) => void, RegExp][] = [
  [
    'rotated',
    (at, id) => at.log.apply([{ type: 'api_key.rotated', data: { id, digest: sha256Hex('another-text') } }]),
    /the API rotated it away at \d{4}-\S+Z; give it the text that the key has now, or a new one$/,
  ],
  [
    'revoked',
    (at, id) => at.log.apply([{ type: 'api_key.revoked', data: { id } }]),
    /its key was revoked at \d{4}-\S+Z; give it a new text$/,
  ],
  [
    'ended',
    (at, id) => at.log.apply([{ type: 'api_key.changed', data: { id, expires_at: '2026-11-19T00:00:00.000Z' } }]),
    /its key ended at 2026-11-19T00:00:00\.000Z; give it a new text$/,
  ],
]

describe.each(USUAL)('the text of %s', (name, variable, text) => {
  const others = WORKING.filter((each) => each.variable !== variable)
  const started = async () => {
    const at = install()
    expect(await at.seed({}, KEYS)).toEqual({ minted: [], working: WORKING, notes: [] })
    expect((await at.seed({}, KEYS)).notes).toEqual([])
    return at
  }

  test.each(ends)('that the API has %s opens nothing, and every start says so', async (_, end, expected) => {
    const at = await started()
    end(at, idOf(at, name))
    for (let start = 0; start < 2; start++) {
      const { notes, working } = await at.seed({}, KEYS)
      expect(working).toEqual(others)
      expect(notes).toEqual([expect.stringMatching(expected)])
      expect(notes[0]).toStartWith(
        `the key "${name}" of default (${variable}): the text of ${variable} is answered with 401: `,
      )
      expect(notes[0]).not.toContain(text)
      expect(notes[0]).not.toContain(sha256Hex(text))
    }
  })

  test.each(ends)('does what the note says, after it was %s', async (_, end) => {
    const at = await started()
    end(at, idOf(at, name))
    const which = name === 'bootstrap-admin' ? 'admin' : 'inference'
    expect(await at.seed({}, { ...KEYS, [which]: `${text}-next` })).toEqual({ minted: [], working: WORKING, notes: [] })
  })

  test('that the key was given by the API works like one that the settings gave it', async () => {
    const at = await started()
    const digest = sha256Hex(`${text}-next`)
    at.log.apply([{ type: 'api_key.rotated', data: { id: idOf(at, name), digest } }])
    const which = name === 'bootstrap-admin' ? 'admin' : 'inference'
    expect(await at.seed({}, { ...KEYS, [which]: `${text}-next` })).toEqual({ minted: [], working: WORKING, notes: [] })
  })

  test('that was refused is told once, by the refusal', async () => {
    const at = await started()
    await at.seed({}, { admin: `${ADMIN}-next`, inference: `${INFERENCE}-next` })
    const { notes, working } = await at.seed({}, KEYS)
    expect(notes.filter((note) => note.includes(variable))).toEqual([expect.stringContaining('left out: its text was')])
    expect(working).toEqual([])
  })
})

test('a key that may do something else now is told with what it may', async () => {
  const at = install()
  await at.seed({}, KEYS)
  const id = idOf(at, 'bootstrap-inference')
  at.log.apply([{ type: 'api_key.changed', data: { id, scopes: ['usage:read'], managed_by: 'api' } }])
  const { working } = await at.seed({}, KEYS)
  expect(working).toEqual([WORKING[0]!, { ...WORKING[1]!, scopes: ['usage:read'] }])
})

describe('the text of an entry', () => {
  const settings: Bootstrap = { keys: [{ name: 'ci', scopes: ['inference'], key_env: 'CI_KEY' }] }
  test.each(ends)('that the API has %s: the note names entry and variable', async (_, end, expected) => {
    const at = install()
    at.env = { CI_KEY: 'a-text-of-the-settings' }
    await at.seed(settings)
    end(at, idOf(at, 'ci'))
    // Else an entry that says no end takes it away.
    at.log.apply([{ type: 'api_key.changed', data: { id: idOf(at, 'ci'), managed_by: 'api' } }])
    const notes = (await at.seed(settings)).notes.filter((note) => note.includes('401'))
    expect(notes).toEqual([expect.stringMatching(expected)])
    expect(notes[0]).toStartWith('bootstrap.keys "ci": the text of CI_KEY is answered with 401: ')
    at.env = { CI_KEY: 'a-text-of-the-settings-next' }
    expect((await at.seed(settings)).notes.filter((note) => note.includes('401'))).toEqual([])
  })

  test('with the name of a usual key names its variable', async () => {
    const listed: Bootstrap = { keys: [{ name: 'bootstrap-inference', scopes: ['inference'] }] }
    const at = install()
    await at.seed(listed, KEYS)
    ends[0]![1](at, idOf(at, 'bootstrap-inference'))
    const { notes, working } = await at.seed(listed, KEYS)
    expect(notes).toEqual([
      expect.stringContaining('bootstrap.keys "bootstrap-inference": the text of GATEWAY_BOOTSTRAP_INFERENCE_KEY is'),
    ])
    expect(working).toEqual([WORKING[0]!])
  })
})
