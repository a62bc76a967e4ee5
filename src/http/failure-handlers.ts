// Responses to bytes that are no valid request, and to requests whose handler failed.

import type { HeaderReader, ServerHandlers } from '../lib/http-server/http-server.ts'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { errorAnswer } from './envelope.ts'
import { newIdentity } from './request-context.ts'

interface FailureDeps {
  readonly diagnostics: Pick<Diagnostics, 'error'>
}

const NO_HEADERS: HeaderReader = { get: () => null, has: () => false }

export const failureHandlers = ({ diagnostics }: FailureDeps): Pick<ServerHandlers, 'malformed' | 'failed'> => ({
  malformed: (problem) => errorAnswer(problem, newIdentity(NO_HEADERS)),
  failed(error) {
    diagnostics.error('answer_failed', { error })
    return errorAnswer(error, newIdentity(NO_HEADERS))
  },
})
