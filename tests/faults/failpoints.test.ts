// The failpoints: off unless a test sets them, and each ends the process where it is named. The rig's N is in
// `failpoints.ts`.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { armFailpoint, FAILPOINTS, failpoint } from '../../src/lib/process/failpoints.ts'
import { runCommand } from '../services/command.ts'
import { type Ground, killAt, openEmbeddedGround, PLACES } from './failpoints/kills.ts'

let ground: Ground
beforeAll(async () => {
  ground = await openEmbeddedGround()
}, 60_000)
afterAll(() => ground?.remove(), 60_000)

test('are off where none is armed', () => {
  for (const name of FAILPOINTS) failpoint(name)
})

test('of a text that names none, or no time, arm nothing', () => {
  for (const text of [
    '',
    'settled',
    'settled:kill',
    'settled:kill@0',
    'elsewhere:kill@1',
    'settled:end@1',
    'settled:kill@1x',
  ])
    expect(armFailpoint(text)).toBe(false)
})

test('are refused outside of tests, in one line, before anything starts', async () => {
  const { code, out, errors } = await runCommand(['start'], { env: { GATELOG_FAILPOINT: 'settled:kill@1' } })
  expect({ code, out, errors }).toEqual({
    code: 1,
    out: '',
    errors: 'gatelog: GATELOG_FAILPOINT is for tests (NODE_ENV=test): unset it\n',
  })
})

test('a text that names none is refused with the names', async () => {
  const env = { GATELOG_FAILPOINT: 'nowhere:kill@1', NODE_ENV: 'test' }
  const { code, errors } = await runCommand(['start'], { env })
  expect(code).toBe(1)
  expect(errors).toContain(FAILPOINTS.join(', '))
})

for (const name of ['settled', 'spool_written', 'control_appended', 'projection_written'] as const) {
  test(`R2: \`kill -9\` at ${name}: nothing is lost, nothing doubled`, async () => {
    const figure = await killAt(ground, name, PLACES[name].within === 1 ? 1 : 2)
    expect(figure).toMatchObject({ good: true })
  }, 120_000)
}
