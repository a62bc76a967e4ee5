// A live body on its way to a connection.
import type { AnswerSink } from './answer.ts'
import type { OpenHead, ServerOutput } from './output.ts'

/** Writes a live body in chunks; to clients that know none, as it comes, until the connection ends. */
export class LiveSink implements AnswerSink {
  /** What was written since the last chunk: one text nearly always. */
  #first = ''
  #others: string[] | null = null
  /** Until it has gone out. */
  #head: OpenHead | null
  /** Its end has not been written. */
  isOpen = true

  constructor(
    private readonly output: ServerOutput,
    head: OpenHead,
    private readonly chunked: boolean,
  ) {
    this.#head = head
  }

  write(text: string): number {
    if (!this.isOpen || text === '') return 0
    if (this.#first === '') this.#first = text
    else {
      this.#others ??= []
      this.#others.push(text)
    }
    return text.length
  }

  flush(): number | Promise<number> {
    if (this.#first !== '') this.#go(false)
    return this.output.flushed()
  }

  close(): void {
    if (!this.isOpen) return
    this.isOpen = false
    this.#go(true)
  }

  #go(last: boolean): void {
    this.output.piece(this.#head, this.#first, this.#others, this.chunked, last)
    this.#head = null
    this.#first = ''
    this.#others = null
  }
}
