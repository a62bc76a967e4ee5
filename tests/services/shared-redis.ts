// The Redis of the test run; one of our own where a file is run by itself.
import { startRedis } from './redis.ts'

export const redisForTests = async (): Promise<{ url: string; stop(): Promise<void> }> => {
  const url = process.env.GATELOG_TEST_REDIS
  return url ? { url, stop: async () => {} } : startRedis()
}
