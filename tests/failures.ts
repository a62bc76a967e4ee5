// Collects what a test runner printed about failed tests, so that it can be repeated at the end of the output, where it
// is easy to find.
const MOST_LINES = 80
const MOST_FAILURES = 20
/** Behind it the runner repeats the names. */
const SUMMARY = /^\d+ tests? failed:$/
const OUTCOME = /^\((pass|fail|skip|todo)\)/

/** Takes the lines of `bun test`. The lines between those of two tests belong to the latter test. */
export class Failures {
  private before: string[] = []
  private rest = ''
  private isOver = false
  readonly told: string[][] = []

  add(text: string): void {
    const lines = (this.rest + text).split('\n')
    this.rest = lines.pop()!
    for (const line of lines) this.line(line)
  }

  private line(line: string): void {
    this.isOver ||= SUMMARY.test(line)
    if (this.isOver) return
    this.before.push(line)
    if (this.before.length > MOST_LINES) this.before.shift()
    const outcome = OUTCOME.exec(line)?.[1]
    if (outcome === undefined) return
    if (outcome === 'fail' && this.told.length < MOST_FAILURES) this.told.push(this.before)
    this.before = []
  }
}
