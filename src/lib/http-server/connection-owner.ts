// What a connection asks of the server that it belongs to.
import type { Answer } from './answer.ts'
import type { ServerConnection } from './connection.ts'
import type { Reply } from './reply.ts'
import type { ServerRequest } from './request.ts'
import type { MalformedRequest } from './request-head.ts'

/** Who answers, and the times of a connection. */
export interface ConnectionOwner {
  answer(request: ServerRequest, connection: ServerConnection): Reply | Promise<Reply>
  malformed(flaw: MalformedRequest): Answer
  /** Reports what must not happen. */
  failed(error: unknown): Answer
  readonly idleMs: number
  readonly headMs: number
  closed(connection: ServerConnection): void
}
