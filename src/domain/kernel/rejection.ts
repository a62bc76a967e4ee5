// Why a command is refused. The domain is independent of HTTP: `http/envelope.ts` translates.

export type RejectionReason = 'invalid' | 'conflict' | 'not_found' | 'forbidden'

export class Rejection extends Error {
  override readonly name = 'Rejection'
  constructor(
    readonly reason: RejectionReason,
    message: string,
    /** The offending field of the command, in the API's spelling. */
    readonly param: string | null = null,
  ) {
    super(message)
  }
}
