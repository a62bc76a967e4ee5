// Sends a live body on a connection.
import type { AnswerSink } from './answer.ts'
import type { OpenHead, ServerOutput } from './output.ts'

/** Writes a live body in chunks; to HTTP/1.0 clients as it comes, until the connection ends. */
export class LiveSink implements AnswerSink {
  /** What was written since the last chunk: nearly always one text. */
  #first = ''
  #others: string[] | null = null
  /** Null once it was sent. */
  #head: OpenHead | null
  /** False once the end of the body is written. */
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
