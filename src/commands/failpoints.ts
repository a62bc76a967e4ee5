// The switch of the failpoints: for the fault rig only.

import type { Environment } from '../composition/settings.ts'
import { armFailpoint, FAILPOINTS } from '../lib/process/failpoints.ts'
import { ConfigError } from '../lib/settings/settings.ts'

const VARIABLE = 'GATELOG_FAILPOINT'

/** Refuses to go on where the variable is set outside of tests: a gateway in use must never end because of it. */
export const readFailpoint = (env: Environment): void => {
  const text = env[VARIABLE]
  if (text === undefined || text === '') return
  if (env.NODE_ENV !== 'test') throw new ConfigError(`${VARIABLE} is for tests (NODE_ENV=test): unset it`)
  if (!armFailpoint(text))
    throw new ConfigError(
      `${VARIABLE} must be <name>:kill@<times> or <name>:stop@<times>, name one of ${FAILPOINTS.join(', ')}`,
    )
}
