// What vendors say when a prompt is too long, when no money is left and when a rate is reached, word by word
// (tests/fixtures/failure-sentences.json): the code decides whether `context_window_models`, another provider or a
// later retry may help.
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { kindOf } from '../../../src/providers/kinds.ts'
import { inBandFailure } from '../../../src/providers/shared/failure.ts'

interface Answered {
  readonly vendor: string
  readonly kind: string
  readonly status: number
  readonly body: unknown
}

const PATH = `${import.meta.dir}/../../fixtures/failure-sentences.json`
const SENTENCES: Readonly<Record<string, readonly Answered[]>> = JSON.parse(readFileSync(PATH, 'utf8'))

const codeOf = ({ kind, status, body }: Answered): string =>
  kindOf(kind)!.failure(status, JSON.stringify(body), new Headers()).code

describe.each(Object.entries(SENTENCES))('sentences that mean %s', (code, answers) => {
  test('are read as that, whichever vendor words them', () => {
    expect(answers.length).toBeGreaterThan(3)
    const read = answers.map((answer) => [answer.vendor, codeOf(answer)])
    expect(read).toEqual(answers.map(({ vendor }) => [vendor, code]))
  })
})

test('an error inside a stream is read by the same sentences, without a status', () => {
  const codeInBand = (error: object) => inBandFailure({ error }).code
  expect(codeInBand({ message: 'Invalid request: Your request exceeded model token limit: 1 (requested: 2)' })).toBe(
    'context_length_exceeded',
  )
  expect(codeInBand({ message: 'Too many tokens per minute' })).toBe('rate_limited')
  expect(codeInBand({ code: 'Arrearage', message: 'x' })).toBe('quota_exceeded')
})
