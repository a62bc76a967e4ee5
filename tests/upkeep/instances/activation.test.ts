import { describe, expect, test } from 'bun:test'
import { CHAIN_ROW } from '../../../src/domain/chain.ts'
import { EVENT_VERSION } from '../../../src/domain/control.ts'
import { memoryLog } from '../../../src/log/memory.ts'
import { openActivation } from '../../../src/upkeep/instances/activation.ts'
import type { InstanceAnnounced } from '../../../src/upkeep/instances/instance-announced.ts'
import { closedAfterEach } from '../../services/closing.ts'
import { begin, nowMs, openInstance, quiet } from '../../state/support.ts'

const closing = closedAfterEach()

const setUp = async () => {
  const log = memoryLog({ nowMs })
  await begin(log)
  const instance = await openInstance('a', log.view())
  closing.push(() => instance.close())
  await instance.live.ready()
  const version = () => instance.live.control.table('chain').get(CHAIN_ROW)!.schema_version
  return { instance, version }
}
const knows = (...versions: number[]) => versions.map((event_version) => ({ event_version }) as InstanceAnnounced)

// docs/behaviour.md: "Log and events"
describe('the activation of new event types', () => {
  test('waits for every live instance, then is one decision', async () => {
    const { instance, version } = await setUp()
    expect(version()).toBe(EVENT_VERSION) // a new chain begins with all that its first build knows
    const next = EVENT_VERSION + 1
    let live = knows(next, EVENT_VERSION)
    const asked = Promise.withResolvers<void>()
    const list = () => {
      asked.resolve()
      return live
    }
    const shared = { live: instance.live, commit: instance.queue.commit, diagnostics: quiet }
    const activation = openActivation({ ...shared, instances: { list }, listenMs: 0, everyMs: 2, version: next })
    closing.push(() => activation.close())
    await asked.promise
    expect(version()).toBe(EVENT_VERSION)
    live = knows(next, next)
    await instance.live.condition.until(() => version() === next, 20_000)
    expect(version()).toBe(next)
    const { offset } = instance.live.status()
    const again = openActivation({ ...shared, instances: { list }, listenMs: 0, everyMs: 2, version: next })
    await again.close()
    expect(instance.live.status().offset).toBe(offset)
  })

  test('does not begin before silent instances were given the time to be heard', async () => {
    const { instance, version } = await setUp()
    const list = () => {
      throw new Error('asked too early')
    }
    const activation = openActivation({
      live: instance.live,
      commit: instance.queue.commit,
      instances: { list },
      diagnostics: quiet,
      version: EVENT_VERSION + 1,
    })
    await activation.close()
    expect(version()).toBe(EVENT_VERSION)
  })
})
