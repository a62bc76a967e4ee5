// Errors of reads while Postgres is unavailable or a read model is still being built: 502, retryable, as for feedback.
// Inference and configuration need no read store.
import { GatewayError } from '../../wire/errors.ts'

/** The result of a read of `projections/<read-model>/query.ts`. Throws an error that may be shown. */
export const reading = async <Result>(read: Promise<Result>): Promise<Result> => {
  try {
    return await read
  } catch (cause) {
    const why =
      cause instanceof Error && cause.name === 'ReadStoreUnavailable' ? cause.message : 'the query was not answered'
    throw new GatewayError(
      'upstream_error',
      `the read store cannot be read now (${why}); inference and configuration are not affected`,
      { retryAfterS: 1, cause },
    )
  }
}
