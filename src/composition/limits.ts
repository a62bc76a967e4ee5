// Where rate limits are counted, by the settings.
import { type Config, settingMs } from '../config/schema.ts'
import { emptySchemaCache } from '../inference/intent/format-schemas.ts'
import { processLimits } from '../inference/limits/local.ts'
import type { Limits } from '../inference/limits/port.ts'
import { LIMIT_SCRIPTS } from '../inference/limits/redis.ts'
import { sharedLimits } from '../inference/limits/shared.ts'
import { openRedis } from '../lib/redis.ts'
import { type LoadWatch, memoryOfMachine, watchLoad } from '../upkeep/watch/load-watch.ts'

// Admission by load, as the settings bound it.

/** Share of the memory of the machine or container that all processes together may use. */
const MEMORY_PART = 0.8
const MIB = 1_048_576

export const openLoad = ({ server }: Pick<Config, 'server'>): LoadWatch => {
  const { max_event_loop_delay: delay, max_memory_mb: memoryMb, processes } = server
  const share = (memoryOfMachine() * MEMORY_PART) / processes
  const bounds = { maxDelayMs: settingMs(delay), maxMemoryBytes: memoryMb === 0 ? share : memoryMb * MIB }
  return watchLoad(bounds, { drop: emptySchemaCache })
}

/** Rate limits: shared through Redis where there is one, else of this process. */
export const openLimits = ({ redis: { url } }: Config): Limits & { close(): void } => {
  if (url === null) return { ...processLimits(() => performance.now()), close: () => {} }
  const redis = openRedis(url, LIMIT_SCRIPTS)
  const limits = sharedLimits({ redis, nowMs: () => performance.now() })
  return {
    take: (ask) => limits.take(ask),
    status: () => limits.status(),
    close() {
      limits.close()
      redis.close()
    },
  }
}
