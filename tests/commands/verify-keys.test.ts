// `gateway verify`: whether what is sealed in the chain can still be opened by the keys that the topic holds.
import { expect, test } from 'bun:test'
import { verifyKeys } from '../../src/commands/verify/keys.ts'
import { decideOperator } from '../../src/domain/access/operator.ts'
import { PROVIDER_DEFAULTS } from '../../src/domain/registry/provider.ts'
import { type MemoryLog, memoryLog } from '../../src/log/memory.ts'
import { TOPICS } from '../../src/log/topics.ts'
import { openDataKeys } from '../../src/state/data-keys/data-keys.ts'
import { closedAfterEach } from '../services/closing.ts'
import { actor, begin, nowMs, openInstance, quiet } from '../state/support.ts'

const KEYS = TOPICS.keys.name
const closing = closedAfterEach()
const signal = new AbortController().signal

/** One provider with a credential and one operator, each sealed under a data key of its own. */
const sealedWorld = async (log: MemoryLog) => {
  await begin(log)
  const store = await openDataKeys({
    log: log.view(),
    masterKeys: () => [new Uint8Array(32).fill(3)],
    instance: 'i1',
    dataDir: null,
    nowMs,
    diagnostics: quiet,
  })
  closing.push(() => store.close())
  const instance = await openInstance('a', log.view())
  closing.push(() => instance.close())
  await instance.live.ready()
  const [secret, person] = [await store.seal('prov_1', 'secret'), await store.seal('op_1', 'person')]
  const { keyId: key_id, sealed } = secret
  await instance.queue.commit({
    actor,
    decide: (state) => [
      {
        type: 'provider.created',
        data: {
          ...PROVIDER_DEFAULTS,
          id: 'prov_1',
          name: 'main',
          status: 'active',
          managed_by: 'api',
          kind: 'openai',
          base_url: null,
        },
      },
      {
        type: 'credential.sealed',
        data: { provider_id: 'prov_1', key_id, sealed, name: null, hint: null, replaces: false },
      },
      ...decideOperator(state, {
        do: 'create',
        id: 'op_1',
        name_digests: ['d'],
        key_id: person.keyId,
        sealed: person.sealed,
      }),
    ],
  })
  return { store, state: instance.live.control, secret, person }
}

test('every secret has its key: nothing is wrong', async () => {
  const log = memoryLog({ nowMs })
  const { state } = await sealedWorld(log)
  const found = await (await verifyKeys({ log: log.view(), signal }))(state)
  expect(found).toMatchObject({
    title: KEYS,
    rows: [
      ['data keys', '2'],
      ['sealed secrets', '2'],
      ['secrets without their key', '0'],
    ],
    problems: [],
  })
})

test('a key that the topic lacks is told with whose secret it was, and what to do', async () => {
  const log = memoryLog({ nowMs })
  const { store, state, secret, person } = await sealedWorld(log)
  await store.erase(person.keyId)
  const without = await (await verifyKeys({ log: log.view(), signal }))(state)
  expect(without.problems).toEqual([
    `${KEYS} lacks the data key of operator op_1, who cannot sign in: restore the topic, or delete this operator and make another`,
  ])
  await log.view().append(KEYS, 0, [{ key: secret.keyId, value: Buffer.from('{"foreign":1}') }])
  await store.erase(secret.keyId)
  const lost = await (await verifyKeys({ log: log.view(), signal }))(state)
  expect(lost.problems[0]).toBe(
    `${KEYS} lacks the data key of the credential of provider main (prov_1): restore the topic, or set it anew`,
  )
  expect(lost.rows).toContainEqual(['secrets without their key', '2'])
})

test('a topic that is empty, as one that was made anew, lacks them all', async () => {
  const { state } = await sealedWorld(memoryLog({ nowMs }))
  const found = await (await verifyKeys({ log: memoryLog({ nowMs }), signal }))(state)
  expect(found.problems).toHaveLength(2)
})

test('what is sealed, or replaced, while the chain is read is not taken for lost', async () => {
  const log = memoryLog({ nowMs })
  const before = await verifyKeys({ log: log.view(), signal })
  const { store, state, secret } = await sealedWorld(log)
  expect((await before(state)).problems).toEqual([])
  const replaced = await verifyKeys({ log: log.view(), signal })
  await store.erase(secret.keyId)
  expect((await replaced(state)).problems).toEqual([])
})

test('a topic whose last records were compacted away is read to where it says nothing more', async () => {
  const log = memoryLog({ nowMs })
  const { state } = await sealedWorld(log)
  const view = log.view()
  const longer = {
    ...view,
    read: view.read.bind(view),
    health: () => view.health(),
    end: async () => (await view.end(KEYS, 0)) + 3,
  }
  const found = await (await verifyKeys({ log: { ...view, ...longer }, signal, silentMs: 20 }))(state)
  expect(found.problems).toEqual([])
})
