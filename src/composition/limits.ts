// Where rate limits are counted, as the settings say.
import type { Config } from '../config/schema.ts'
import { processLimits } from '../inference/limits/local.ts'
import type { Limits } from '../inference/limits/port.ts'
import { LIMIT_SCRIPTS } from '../inference/limits/redis.ts'
import { sharedLimits } from '../inference/limits/shared.ts'
import { turnMs } from '../lib/event-loop/turn-clock.ts'
import { openRedis } from '../lib/redis.ts'

/** Rate limits: shared through Redis where there is one, else of this process. */
export const openLimits = ({ redis: { url } }: Config): Limits & { close(): void } => {
  if (url === null) return { ...processLimits(turnMs), close: () => {} }
  const redis = openRedis(url, LIMIT_SCRIPTS)
  const limits = sharedLimits({ redis, nowMs: turnMs })
  return {
    take: (ask) => limits.take(ask),
    status: () => limits.status(),
    close() {
      limits.close()
      redis.close()
    },
  }
}
