// The interface of a connection to its server.
import type { Answer } from './answer.ts'
import type { ServerConnection } from './connection.ts'
import type { Reply } from './reply.ts'
import type { ServerRequest } from './request.ts'
import type { MalformedRequest } from './request-head.ts'

/** Handles requests, and sets the times of a connection. */
export interface ConnectionOwner {
  answer(request: ServerRequest, connection: ServerConnection): Reply | Promise<Reply>
  malformed(flaw: MalformedRequest): Answer
  /** Reports a fault of the program. */
  failed(error: unknown): Answer
  readonly idleMs: number
  readonly headMs: number
  closed(connection: ServerConnection): void
}
