import { describe, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { decideOperator } from '../../../src/domain/access/operator.ts'
import { PROVIDER_DEFAULTS } from '../../../src/domain/registry/provider.ts'
import { memoryLog } from '../../../src/log/memory.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { openDataKeys } from '../../../src/state/data-keys/data-keys.ts'
import type { DataKeyDeps, DataKeyStore } from '../../../src/state/data-keys/store.ts'
import { sweepDataKeys, UNUSED_AFTER_MS } from '../../../src/state/data-keys/sweep.ts'
import { closedAfterEach } from '../../services/closing.ts'
import { eventually } from '../../services/eventually.ts'
import { actor, begin, nowMs, openInstance, quiet } from '../support.ts'

const KEYS = TOPICS.keys.name
const master = new Uint8Array(32).fill(3)
const closing = closedAfterEach()
const open = async (log: EventLog, more: Partial<DataKeyDeps> = {}): Promise<DataKeyStore> => {
  const store = await openDataKeys({
    log,
    masterKeys: () => [master],
    instance: 'i1',
    dataDir: null,
    nowMs,
    diagnostics: quiet,
    ...more,
  })
  closing.push(() => store.close())
  return store
}
const arrived = (store: DataKeyStore, keyId: string, what: 'arrived' | 'erased') =>
  new Promise<void>((resolve) => void store.subscribe((id, happened) => id === keyId && happened === what && resolve()))

describe('data keys', () => {
  test('what one instance seals another opens, also after a restart', async () => {
    const log = memoryLog({ nowMs })
    const [first, second] = [await open(log.view()), await open(log.view())]
    const waiting = new Promise<string>((resolve) => void second.subscribe((keyId) => resolve(keyId)))
    const { keyId, sealed } = await first.seal('prov_1', 'the secret')
    expect(await waiting).toBe(keyId)
    expect(second.open('prov_1', keyId, sealed)).toBe('the secret')
    const third = await open(log.view())
    await third.ready()
    expect(third.open('prov_1', keyId, sealed)).toBe('the secret')
    expect(third.ids).toEqual(new Set([keyId]))
  })

  test('neither the secret nor the key stands in the log', async () => {
    const log = memoryLog({ nowMs })
    const store = await open(log.view())
    await store.seal('prov_1', 'the secret')
    const text = log
      .records(KEYS)
      .map(({ value }) => Buffer.from(value!).toString())
      .join()
    expect(text).toContain('data-key.wrapped')
    expect(text).not.toContain('the secret')
    expect(text).not.toContain(Buffer.from(master).toString('base64').slice(0, 20))
  })

  test('S32: bound to its subject and key: nothing opens for another', async () => {
    const store = await open(memoryLog({ nowMs }))
    const one = await store.seal('prov_1', 'secret')
    const two = await store.seal('prov_2', 'secret')
    expect(() => store.open('prov_2', one.keyId, one.sealed)).toThrow()
    expect(() => store.open('prov_1', two.keyId, one.sealed)).toThrow()
    expect(() => store.open('prov_1', one.keyId, `${one.sealed.slice(0, -8)}AAAAAAA=`)).toThrow()
  })

  test('an erased key opens nothing, here, elsewhere and after a restart', async () => {
    const log = memoryLog({ nowMs })
    const [first, second] = [await open(log.view()), await open(log.view())]
    const { keyId, sealed } = await first.seal('prov_1', 'secret')
    const gone = arrived(second, keyId, 'erased')
    await first.erase(keyId)
    expect(first.open('prov_1', keyId, sealed)).toBeNull()
    await gone
    expect(second.open('prov_1', keyId, sealed)).toBeNull()
    const third = await open(log.view())
    await third.ready()
    expect(third.ids.size).toBe(0)
    expect(log.records(KEYS).at(-1)).toMatchObject({ key: keyId, value: null })
  })

  test('S32: a key of a master key that is not held stops the start, and is named', async () => {
    const log = memoryLog({ nowMs })
    const { keyId } = await (await open(log.view())).seal('prov_1', 'secret')
    const other = await open(log.view(), { masterKeys: () => [new Uint8Array(32).fill(4)] })
    await expect(other.ready()).rejects.toMatchObject({
      name: 'MasterKeyMissing',
      message: expect.stringContaining(keyId),
    })
    const both = await open(log.view(), { masterKeys: () => [new Uint8Array(32).fill(4), master] })
    await both.ready()
    expect(both.ids.size).toBe(1)
  })

  test('with the log away the start opens what it knew; what was erased meanwhile goes when the log is back', async () => {
    const log = memoryLog({ nowMs })
    const dataDir = closing.folder()
    const first = await openDataKeys({
      log: log.view(),
      masterKeys: () => [master],
      instance: 'i1',
      dataDir,
      nowMs,
      diagnostics: quiet,
    })
    await first.ready()
    const kept = await first.seal('prov_1', 'kept')
    const erased = await first.seal('prov_2', 'erased')
    await first.close()
    expect(await readFile(join(dataDir, 'data-keys.json'), 'utf8')).not.toContain('kept')
    await (await open(log.view())).erase(erased.keyId)
    let down = true
    const again = await open(log.view({ down: () => down }), { dataDir, graceMs: 10 })
    await again.ready()
    expect(again.open('prov_1', kept.keyId, kept.sealed)).toBe('kept')
    const gone = arrived(again, erased.keyId, 'erased')
    down = false
    log.wake()
    await gone
    expect(again.open('prov_2', erased.keyId, erased.sealed)).toBeNull()
    expect(again.open('prov_1', kept.keyId, kept.sealed)).toBe('kept')
  })

  test('with the log away after a crash the start opens what was sealed before it', async () => {
    const log = memoryLog({ nowMs })
    const dataDir = closing.folder()
    const first = await open(log.view(), { dataDir })
    await first.ready()
    const kept = [await first.seal('prov_1', 'one'), await first.seal('prov_2', 'two')]
    // Nothing is closed: what is not written by itself is lost.
    await eventually('both are stored', async () => {
      const text = await readFile(join(dataDir, 'data-keys.json'), 'utf8').catch(() => '')
      return kept.every(({ keyId }) => text.includes(keyId))
    })
    const again = await open(log.view({ down: () => true }), { dataDir, graceMs: 10 })
    await again.ready()
    expect(again.open('prov_1', kept[0]!.keyId, kept[0]!.sealed)).toBe('one')
    expect(again.open('prov_2', kept[1]!.keyId, kept[1]!.sealed)).toBe('two')
  })

  test('an erasure that the log does not take is owed, not failed, and made up for', async () => {
    const log = memoryLog({ nowMs })
    let away = false
    const store = await open(log.view({ beforeAppend: () => (away ? 'refused' : 'none') }))
    const { keyId, sealed } = await store.seal('prov_1', 'secret')
    away = true
    await store.erase(keyId)
    await expect(store.eraseOwed()).rejects.toThrow('injected')
    expect(log.records(KEYS)).toHaveLength(1)
    away = false
    await store.eraseOwed()
    expect(log.records(KEYS).at(-1)).toMatchObject({ key: keyId, value: null })
    expect(store.open('prov_1', keyId, sealed)).toBeNull()
    await store.eraseOwed()
    expect(log.records(KEYS)).toHaveLength(2)
  })

  test('long after an erasure one more record lets the brokers compact it, from one of the instances, once', async () => {
    const log = memoryLog({ nowMs })
    let skewMs = 0
    const more = { nowMs: () => nowMs() + skewMs, closesAfterMs: 3_600_000 }
    const [first, second] = [await open(log.view(), more), await open(log.view(), more)]
    const { keyId } = await first.seal('prov_1', 'secret')
    await first.followed()
    skewMs = 7_200_000
    await first.eraseOwed()
    expect(log.records(KEYS)).toHaveLength(1) // nothing to compact
    await first.erase(keyId)
    skewMs = 0
    await first.followed()
    await first.eraseOwed()
    expect(log.records(KEYS)).toHaveLength(2) // not yet
    skewMs = 7_200_000
    await first.eraseOwed()
    await second.followed()
    for (const store of [first, second]) await store.eraseOwed()
    expect(log.records(KEYS).map(({ key, value }) => [key, value === null])).toEqual([
      [keyId, false],
      [keyId, true],
      ['close', true],
    ])
  })

  test('after a start the log says how old a key is, once it is known for a minute', async () => {
    const log = memoryLog({ nowMs })
    const { keyId } = await (await open(log.view())).seal('prov_1', 'secret')
    let skewMs = UNUSED_AFTER_MS + 1_000
    const store = await open(log.view(), { nowMs: () => nowMs() + skewMs })
    await store.ready()
    expect(store.olderThan(UNUSED_AFTER_MS)).toEqual([])
    skewMs += 61_000
    expect(store.olderThan(UNUSED_AFTER_MS)).toEqual([keyId])
  })

  test('an append whose answer was lost is repeated, and harmless', async () => {
    const log = memoryLog({ nowMs })
    let tries = 0
    const store = await open(log.view({ beforeAppend: () => (++tries === 1 ? 'lost_answer' : 'none') }))
    const { keyId, sealed } = await store.seal('prov_1', 'secret')
    expect(log.records(KEYS)).toHaveLength(2)
    expect(store.open('prov_1', keyId, sealed)).toBe('secret')
  })

  test('rubbish in the topic stops nobody', async () => {
    const log = memoryLog({ nowMs })
    for (const value of [Buffer.from('rubbish'), Buffer.from('{"specversion":"1.0"}'), null])
      await log.append(KEYS, 0, [{ key: 'x', value }])
    const store = await open(log.view())
    await store.ready()
    expect(store.ids.size).toBe(0)
  })
})

describe('the sweep of unused data keys', () => {
  test('erases what no row refers to after ten minutes, and nothing else', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    let skewMs = 0
    const store = await open(log.view(), { nowMs: () => nowMs() + skewMs })
    const instance = await openInstance('a', log.view())
    closing.push(() => instance.close())
    await instance.live.ready()
    const [used, unused] = [await store.seal('prov_1', 'used'), await store.seal('prov_1', 'unused')]
    const person = await store.seal('op_1', 'a name and a hash')
    const provider = {
      id: 'prov_1',
      name: 'p',
      status: 'active',
      managed_by: 'api',
      kind: 'openai',
      base_url: null,
      ...PROVIDER_DEFAULTS,
    }
    const credential = {
      provider_id: 'prov_1',
      key_id: used.keyId,
      sealed: used.sealed,
      name: null,
      hint: null,
      replaces: false,
    }
    await instance.queue.commit({
      actor,
      decide: (state) => [
        { type: 'provider.created', data: provider },
        { type: 'credential.sealed', data: credential },
        ...decideOperator(state, {
          do: 'create',
          id: 'op_1',
          name_digests: ['d'],
          key_id: person.keyId,
          sealed: person.sealed,
        }),
      ],
    })
    const deps = { live: instance.live, dataKeys: store, diagnostics: quiet }
    expect(await sweepDataKeys(deps)).toBe(0)
    skewMs = UNUSED_AFTER_MS + 1_000
    expect(await sweepDataKeys(deps)).toBe(1)
    expect(store.ids).toEqual(new Set([used.keyId, person.keyId]))
    expect(store.open('prov_1', unused.keyId, unused.sealed)).toBeNull()
  })

  test('does nothing while this instance may be behind', async () => {
    const log = memoryLog({ nowMs })
    let skewMs = 0
    const store = await open(log.view(), { nowMs: () => nowMs() + skewMs })
    const instance = await openInstance('a', log.view(), {
      allowEmpty: true,
      monotonicMs: () => performance.now() + skewMs,
      confirmEveryMs: 60_000,
    })
    closing.push(() => instance.close())
    await instance.live.ready()
    await store.seal('prov_1', 'unused')
    skewMs = UNUSED_AFTER_MS + 1_000 // nothing confirmed for as long: stale
    expect(await sweepDataKeys({ live: instance.live, dataKeys: store, diagnostics: quiet })).toBe(0)
    expect(store.ids.size).toBe(1)
  })
})
