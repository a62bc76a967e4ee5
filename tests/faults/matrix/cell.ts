// One cell: a request into a row's fault, and everything that must be true of it afterwards.
import { type Expected, type Failing, type Row, TABLE, TEXT } from './row.ts'

export type Mode = 'json' | 'stream'
export type Fallback = 'on' | 'off'

/** The outcome that was recorded, as far as the matrix looks at it. */
export interface RecordedOutcome {
  readonly outcome: string
  readonly status: number
  readonly error_code: string | null
  readonly provider: string | null
  readonly fallback_used: boolean
  readonly attempts: readonly {
    readonly provider: string
    readonly outcome: string
    readonly error_code: string | null
  }[]
}

/**
 * A gateway with the rows' providers. Each cell has a separate model, so that no cell affects the cool-down or the
 * breaker of another.
 */
export interface Rig {
  ask(model: string, label: string, stream: boolean, headers: Readonly<Record<string, string>>): Promise<Response>
  /** How often the faulty provider and the good one were called for that model; null: it cannot be counted. */
  calls(row: Row, model: string): { readonly faulty: number | null; readonly good: number }
  /** What is recorded under that label, once it is. */
  outcome(label: string): Promise<RecordedOutcome>
}

export interface Cell {
  readonly row: Row
  readonly mode: Mode
  readonly fallback: Fallback
  readonly model: string
}

export const GOOD = 'good'
export const GOOD_TEXT = 'Hello from the good one.'
export const faultyName = (index: number) => `faulty-${index}`

export const cellsOf = (rows: readonly Row[]): Cell[] =>
  rows.flatMap((row, index) =>
    (['json', 'stream'] as const).flatMap((mode) =>
      (['on', 'off'] as const).map((fallback) => ({ row, mode, fallback, model: `m${index}-${mode}-${fallback}` })),
    ),
  )

/** What a cell should come to: the row's word, and whether another provider takes over. */
const expectedOf = ({ row, mode, fallback }: Cell): { readonly fault: Expected; readonly takesOver: boolean } => {
  const fault = row[mode]
  if (fault === 'ok') return { fault, takesOver: false }
  const mayFallBack = TABLE[fault.code][2]
  return { fault, takesOver: fallback === 'on' && fault.when === 'before' && mayFallBack }
}

/**
 * Status of a failure before the first byte. Without fallback every fallback-eligible failure is 502, except those that
 * keep their code.
 */
const statusOf = ({ code }: Failing): number => TABLE[code][0]

interface Seen {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/** Compares; every difference is one line. */
class Differences {
  readonly lines: string[] = []
  same(what: string, seen: unknown, expected: unknown): void {
    if (!Object.is(seen, expected))
      this.lines.push(`${what} is ${JSON.stringify(seen)}, expected ${JSON.stringify(expected)}`)
  }
}

const framesIn = (text: string) =>
  text
    .split('\n\n')
    .filter((frame) => frame !== '')
    .map((frame) => ({
      event: /^event: (.*)$/m.exec(frame)?.[1] ?? null,
      data: /^data: (.*)$/m.exec(frame)?.[1] ?? '',
    }))

const textOf = (mode: Mode, { text }: Seen): string => {
  if (mode === 'json')
    return (JSON.parse(text) as { choices: { message: { content: string } }[] }).choices[0]!.message.content
  return framesIn(text)
    .filter(({ event, data }) => event === null && data !== '[DONE]')
    .map(
      ({ data }) =>
        (JSON.parse(data) as { choices: { delta?: { content?: string } }[] }).choices[0]?.delta?.content ?? '',
    )
    .join('')
}

const checkAnswer = (differences: Differences, { mode }: Cell, seen: Seen, text: string) => {
  differences.same('status', seen.status, 200)
  if (seen.status !== 200) return
  const answered = textOf(mode, seen)
  differences.same('text', answered.replace(/^G{20,}/, 'Grüße').slice(0, 100), text)
  if (mode === 'stream') {
    differences.same('last frame', framesIn(seen.text).at(-1)?.data, '[DONE]')
    differences.same('error frame', seen.text.includes('event: error'), false)
  }
}

const checkFailure = (differences: Differences, seen: Seen, fault: Failing) => {
  const [, retryable] = TABLE[fault.code]
  differences.same('status', seen.status, statusOf(fault))
  if (seen.status === 200) return
  const { error, gateway } = JSON.parse(seen.text) as {
    error: { code: string; message: string }
    gateway: { provider: string }
  }
  differences.same('code', error.code, fault.code)
  differences.same('X-Gateway-Retryable', seen.headers.get('x-gateway-retryable'), String(retryable))
  differences.same('x-should-retry', seen.headers.get('x-should-retry'), String(retryable))
  differences.same(
    'X-Gateway-Upstream-Status',
    seen.headers.get('x-gateway-upstream-status'),
    fault.upstreamStatus?.toString() ?? null,
  )
  differences.same('Retry-After', seen.headers.get('retry-after'), fault.retryAfterS?.toString() ?? null)
  differences.same('names the provider', gateway.provider?.startsWith('faulty-'), true)
  differences.same('quotes an address', /127\.0\.0\.1|https?:/.test(error.message), false)
}

const checkBroken = (differences: Differences, seen: Seen, { code }: Failing) => {
  differences.same('status', seen.status, 200)
  const frames = framesIn(seen.text)
  differences.same('last frame', frames.at(-1)?.data, '[DONE]')
  const last = frames.at(-2)
  differences.same('event of the last but one', last?.event, 'error')
  const error = last?.event === 'error' ? (JSON.parse(last.data) as { error: { code: string } }).error.code : null
  differences.same('code of the error frame', error, code)
}

const checkOutcome = (differences: Differences, cell: Cell, recorded: RecordedOutcome) => {
  const { fault, takesOver } = expectedOf(cell)
  const failing = fault === 'ok' ? null : fault
  const broken = failing?.when === 'after'
  const succeeds = failing === null || takesOver
  differences.same('outcome', recorded.outcome, succeeds ? 'success' : broken ? 'interrupted' : 'error')
  differences.same('recorded status', recorded.status, succeeds || broken ? 200 : statusOf(failing))
  differences.same('recorded code', recorded.error_code, succeeds ? null : failing.code)
  differences.same('recorded fallback', recorded.fallback_used, takesOver)
  differences.same('attempts', recorded.attempts.length, takesOver ? 2 : 1)
  const [first, second] = recorded.attempts
  differences.same('first attempt', first?.outcome, failing === null ? 'success' : broken ? 'interrupted' : 'error')
  differences.same('its code', first?.error_code ?? null, failing?.code ?? null)
  if (takesOver) differences.same('second attempt', `${second?.provider} ${second?.outcome}`, `${GOOD} success`)
}

/** Runs it; what differs from the expected cell, nothing when it is right. */
export const runCell = async (
  cell: Cell,
  rig: Rig,
): Promise<{ readonly shown: string; readonly wrong: readonly string[] }> => {
  const { row, mode, fallback, model } = cell
  const label = `cell-${model}`
  const { fault, takesOver } = expectedOf(cell)
  const differences = new Differences()
  const headers: Record<string, string> = { 'X-Request-ID': label }
  if (fallback === 'off') headers['X-Gateway-No-Fallback'] = 'true'
  if (row.policy !== undefined) headers['X-Gateway-Policy'] = row.policy
  let shown = 'no answer'
  try {
    const response = await rig.ask(model, label, mode === 'stream', headers)
    const seen: Seen = { status: response.status, headers: response.headers, text: await response.text() }
    const recorded = await rig.outcome(label)
    shown = shownOf(seen, recorded)
    if (fault === 'ok') checkAnswer(differences, cell, seen, TEXT)
    else if (takesOver) checkAnswer(differences, cell, seen, GOOD_TEXT)
    else if (fault.when === 'after') checkBroken(differences, seen, fault)
    else checkFailure(differences, seen, fault)
    checkOutcome(differences, cell, recorded)
    const { faulty, good } = rig.calls(row, model)
    if (faulty !== null) differences.same('calls of the faulty one', faulty, 1)
    differences.same('calls of the good one', good, takesOver ? 1 : 0)
  } catch (error) {
    differences.lines.push(String(error))
  }
  return { shown, wrong: differences.lines }
}

const shownOf = ({ status }: Seen, recorded: RecordedOutcome): string => {
  const code =
    recorded.error_code ?? (recorded.fallback_used ? `fallback after ${recorded.attempts[0]?.error_code}` : '')
  return [status, code, recorded.outcome].filter((part) => part !== '').join(' ')
}
