// What happened in a run, line by line. Its digest is the same for the same seed, and so are its lines.

export class Trace {
  #digest = 0n
  lines: string[] = []
  count = 0

  constructor(
    private readonly nowMs: () => number,
    /** Whether the lines are kept, or only their digest. */
    private readonly keeps: boolean,
  ) {}

  note(who: string, what: string): void {
    const line = `${this.nowMs().toFixed(3).padStart(11)} ${who.padEnd(5)} ${what}`
    this.count++
    this.#digest = Bun.hash.wyhash(line, this.#digest)
    if (this.keeps) this.lines.push(line)
  }

  get digest(): string {
    return this.#digest.toString(16).padStart(16, '0')
  }
}
