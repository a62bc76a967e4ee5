// Gateways of a test file before one upstream.
import { afterAll } from 'bun:test'
import { entry, type TestGateway, testGateway } from '../inference/gateway.ts'
import { startUpstream } from '../services/upstream.ts'

/** Call it once, at the top of a test file: what it makes is closed after its tests. */
export const gatewaysOnUpstream = () => {
  const upstream = startUpstream()
  const made: TestGateway[] = []
  afterAll(async () => {
    for (const gateway of made) gateway.close()
    await upstream.stop()
  })
  const gatewayWith = (options: Parameters<typeof testGateway>[0] = {}): TestGateway => {
    const gateway = testGateway({ entries: [entry({ baseUrl: upstream.baseUrl })], ...options })
    made.push(gateway)
    return gateway
  }
  return { upstream, gatewayWith }
}
