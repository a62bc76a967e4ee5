// Admission by load, as the settings bound it.
import { type Config, settingMs } from '../config/schema.ts'
import { type LoadWatch, memoryOfMachine, watchLoad } from '../upkeep/watch/load-watch.ts'

/** Of what the machine or the container has, for all processes together. */
const MEMORY_PART = 0.8
const MIB = 1_048_576

export const openLoad = ({ server }: Pick<Config, 'server'>): LoadWatch => {
  const { max_event_loop_delay: delay, max_memory_mb: memoryMb, processes } = server
  const share = (memoryOfMachine() * MEMORY_PART) / processes
  return watchLoad({ maxDelayMs: settingMs(delay), maxMemoryBytes: memoryMb === 0 ? share : memoryMb * MIB })
}
