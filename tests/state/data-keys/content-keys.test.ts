// Captured content of a tenant: sealed under its own keys, and gone with them.
import { expect, test } from 'bun:test'
import { decideTenant } from '../../../src/domain/access/tenant.ts'
import { memoryLog } from '../../../src/log/memory.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { type ContentKeys, createContentKeys } from '../../../src/state/data-keys/content-keys.ts'
import { openDataKeys } from '../../../src/state/data-keys/data-keys.ts'
import type { DataKeyStore } from '../../../src/state/data-keys/store.ts'
import { sweepDataKeys, UNUSED_AFTER_MS } from '../../../src/state/data-keys/sweep.ts'
import { closedAfterEach } from '../../services/closing.ts'
import { actor, begin, createTenant, deleteTenant, type Instance, nowMs, openInstance, quiet } from '../support.ts'

const closing = closedAfterEach()

interface World extends Instance {
  readonly dataKeys: DataKeyStore
  readonly content: ContentKeys
}

const openWorld = async (log: EventLog, clock = nowMs): Promise<World> => {
  const instance = await openInstance('a', log)
  await instance.live.ready()
  const masterKeys = () => [new Uint8Array(32).fill(7)]
  const shared = { nowMs: clock, diagnostics: quiet }
  const dataKeys = await openDataKeys({ ...shared, log, masterKeys, instance: 'a', dataDir: null })
  await dataKeys.ready()
  closing.push(async () => {
    await dataKeys.close()
    await instance.close()
  })
  return { ...instance, dataKeys, content: createContentKeys({ ...shared, live: instance.live, dataKeys }) }
}

const eraseContent = ({ queue }: Instance, id: string) =>
  queue.commit({ actor, decide: (state) => decideTenant(state, { do: 'erase_content', id }) })

test('one key for a tenant, another for the next; a text opens only for what it is the content of', async () => {
  const log = memoryLog({ nowMs })
  await begin(log)
  const { queue, content, dataKeys } = await openWorld(log.view())
  for (const slug of ['a', 'b']) await queue.commit(createTenant(slug))
  const [one, two] = await Promise.all([
    content.seal('ten_a', 'req_1', 'prompt'),
    content.seal('ten_a', 'req_2', 'more'),
  ])
  const other = await content.seal('ten_b', 'req_3', 'of another')
  expect(one.keyId).toBe(two.keyId)
  expect(other.keyId).not.toBe(one.keyId)
  expect(dataKeys.ids.size).toBe(2)
  expect(content.open('ten_a', 'req_1', one.keyId, one.sealed)).toBe('prompt')
  expect(() => content.open('ten_a', 'req_2', one.keyId, one.sealed)).toThrow()
  expect(() => content.open('ten_b', 'req_1', one.keyId, one.sealed)).toThrow()
})

// docs/behaviour.md: "Retention and erasure"
test('an erasure takes what every instance sealed before it, and nothing that is sealed after', async () => {
  const log = memoryLog({ nowMs })
  await begin(log)
  const [here, there] = [await openWorld(log.view()), await openWorld(log.view())]
  const { revision } = await here.queue.commit(createTenant('a'))
  await there.live.reached(revision, 20_000)
  const mine = await here.content.seal('ten_a', 'req_1', 'mine')
  const theirs = await there.content.seal('ten_a', 'req_2', 'theirs')
  const { changes } = await eraseContent(here, 'ten_a')
  expect(changes[0]!.after).toMatchObject({ content_erasures: 1 })
  expect(await here.content.erase('ten_a')).toBeGreaterThan(0)
  const after = await here.content.seal('ten_a', 'req_3', 'after')
  const fresh = await openWorld(log.view())
  expect(fresh.content.open('ten_a', 'req_1', mine.keyId, mine.sealed)).toBeNull()
  expect(fresh.content.open('ten_a', 'req_2', theirs.keyId, theirs.sealed)).toBeNull()
  expect(fresh.content.open('ten_a', 'req_3', after.keyId, after.sealed)).toBe('after')
})

test('a key that a copy of the topic brings back, and those of a deleted tenant, are swept', async () => {
  const log = memoryLog({ nowMs })
  await begin(log)
  let skewMs = 0
  const world = await openWorld(log.view(), () => nowMs() + skewMs)
  const { queue, live, dataKeys, content } = world
  for (const slug of ['a', 'b', 'c']) await queue.commit(createTenant(slug))
  const sealed = await Promise.all(['a', 'b', 'c'].map((slug) => content.seal(`ten_${slug}`, 'req', slug)))
  await eraseContent(world, 'ten_a') // and the process died before it erased the keys
  await queue.commit(deleteTenant('b'))
  skewMs = UNUSED_AFTER_MS + 1_000
  expect(await sweepDataKeys({ live, dataKeys, diagnostics: quiet })).toBe(2)
  expect(dataKeys.ids).toEqual(new Set([sealed[2]!.keyId]))
  expect(content.open('ten_c', 'req', sealed[2]!.keyId, sealed[2]!.sealed)).toBe('c')
})

// docs/behaviour.md: "Retention and erasure"
test('content that is stored as bytes: sealed under the same key, for one owner of one tenant, and gone with an erasure', async () => {
  const log = memoryLog({ nowMs })
  await begin(log)
  const world = await openWorld(log.view())
  const { queue, content } = world
  for (const slug of ['a', 'b']) await queue.commit(createTenant(slug))
  const bytes = crypto.getRandomValues(new Uint8Array(500))
  const { keyId, sealed } = await content.sealBytes('ten_a', 'entry_1', bytes)
  const text = await content.seal('ten_a', 'entry_1', 'text')
  expect(text.keyId).toBe(keyId)
  expect(new Uint8Array(content.openBytes('ten_a', 'entry_1', keyId, sealed)!)).toEqual(bytes)
  expect(() => content.openBytes('ten_a', 'entry_2', keyId, sealed)).toThrow()
  expect(() => content.openBytes('ten_b', 'entry_1', keyId, sealed)).toThrow()
  expect(() => content.openBytes('ten_a', 'entry_1', keyId, sealed.subarray(1))).toThrow()
  expect(() => content.openBytes('ten_a', 'entry_1', keyId, Buffer.from(text.sealed, 'base64'))).toThrow()
  await eraseContent(world, 'ten_a')
  await content.erase('ten_a')
  expect(content.openBytes('ten_a', 'entry_1', keyId, sealed)).toBeNull()
})
