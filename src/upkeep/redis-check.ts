// Whether Redis answers. Bun's client has no deadline of its own and gives up for ever after some failures: both are handled here.
import { RedisClient } from 'bun'

export interface RedisCheck {
  /** Null when it answers, else why not. Never longer than half a second. */
  problem(): Promise<string | null>
  close(): void
}

const ANSWER_MS = 500

export const openRedisCheck = (url: string): RedisCheck => {
  const client = new RedisClient(url, { connectionTimeout: ANSWER_MS, enableOfflineQueue: false, autoReconnect: false })
  const ask = async (): Promise<null> => {
    if (!client.connected) await client.connect()
    await client.send('PING', [])
    return null
  }
  return {
    async problem() {
      const asked = ask().catch(() => 'Redis does not answer')
      return Promise.race([asked, Bun.sleep(ANSWER_MS).then(() => `Redis did not answer within ${ANSWER_MS} ms`)])
    },
    close: () => client.close(),
  }
}
