// Rotation of the master key: each data key is wrapped again, whatever runs at the same time, and erased keys stay
// erased.
import { describe, expect, test } from 'bun:test'
import { decisionMacKey } from '../../../src/domain/kernel/decision.ts'
import { memoryLog } from '../../../src/log/memory.ts'
import type { EventLog } from '../../../src/log/port.ts'
import { TOPICS } from '../../../src/log/topics.ts'
import { openDataKeys } from '../../../src/state/data-keys/data-keys.ts'
import { derivedFrom, originalKeys } from '../../../src/state/data-keys/installation-keys.ts'
import type { DataKeyStore } from '../../../src/state/data-keys/store.ts'
import { closedAfterEach } from '../../services/closing.ts'
import { begin, macKey, nowMs, quiet } from '../support.ts'

const KEYS = TOPICS.keys.name
const [older, newer] = [new Uint8Array(32).fill(7), new Uint8Array(32).fill(8)]
const closing = closedAfterEach()
const open = async (log: EventLog, ...masterKeys: readonly Uint8Array[]): Promise<DataKeyStore> => {
  const store = await openDataKeys({
    log,
    masterKeys: () => masterKeys,
    instance: 'i1',
    dataDir: null,
    nowMs,
    diagnostics: quiet,
  })
  closing.push(() => store.close())
  return store
}
const opened = async (log: EventLog, ...masterKeys: readonly Uint8Array[]): Promise<DataKeyStore> => {
  const store = await open(log, ...masterKeys)
  await store.ready()
  return store
}

describe('a rotation', () => {
  test('S32: wraps everything anew, once; the old key alone is refused by name, the new one alone opens all', async () => {
    const log = memoryLog({ nowMs })
    const before = await opened(log.view(), older)
    const secrets = await Promise.all(Array.from({ length: 70 }, (_, n) => before.seal(`prov_${n}`, `secret ${n}`)))
    await before.storeInstallation(derivedFrom(older))
    const rotating = await opened(log.view(), newer, older)
    expect(await rotating.rewrap()).toBe(75)
    expect([...rotating.census().values()]).toEqual([75])
    const records = log.records(KEYS).length
    expect(await rotating.rewrap()).toBe(0)
    expect(log.records(KEYS)).toHaveLength(records)

    const after = await opened(log.view(), newer)
    for (const [n, { keyId, sealed }] of secrets.entries()) {
      expect(after.open(`prov_${n}`, keyId, sealed)).toBe(`secret ${n}`)
      expect(before.open(`prov_${n}`, keyId, sealed)).toBe(`secret ${n}`) // it held the key before, and serves on
    }
    expect(after.installation()).toEqual(derivedFrom(older))
    const stranger = await open(log.view(), older)
    const [name] = [...after.census().keys()]
    await expect(stranger.ready()).rejects.toMatchObject({
      name: 'MasterKeyMissing',
      message: expect.stringMatching(name!),
    })
  })

  test('does not bring back what is erased while it writes', async () => {
    const log = memoryLog({ nowMs })
    const beside = await opened(log.view(), older)
    const [kept, gone] = [await beside.seal('prov_1', 'kept'), await beside.seal('op_1', 'gone')]
    const view = log.view()
    // The tombstone stands in the log before the batch of the rotation, which was made without it.
    const late: EventLog = Object.assign(Object.create(view), {
      append: async (...args: Parameters<EventLog['append']>) => {
        if (beside.ids.has(gone.keyId)) await beside.erase(gone.keyId)
        return view.append(...args)
      },
    })
    const rotating = await opened(late, newer, older)
    await rotating.rewrap()
    await rotating.eraseOwed()
    const ofIt = () => log.records(KEYS).filter(({ key }) => key === gone.keyId)
    expect(ofIt().map(({ value }) => value !== null)).toContainValues([true, false])
    expect(ofIt().at(-1)!.value).toBeNull()
    const after = await opened(log.view(), newer, older)
    expect(after.open('op_1', gone.keyId, gone.sealed)).toBeNull()
    expect(after.open('prov_1', kept.keyId, kept.sealed)).toBe('kept')
    for (const store of [beside, rotating]) expect(store.open('op_1', gone.keyId, gone.sealed)).toBeNull()
  })

  test('what is sealed while the current key changes is wrapped by the new one', async () => {
    const log = memoryLog({ nowMs })
    let held: readonly Uint8Array[] = [older]
    const view = log.view()
    const slow: EventLog = Object.assign(Object.create(view), {
      append: async (...args: Parameters<EventLog['append']>) => {
        held = [newer, older] // the key file is replaced between the look at it and the append
        return view.append(...args)
      },
    })
    const store = await openDataKeys({
      log: slow,
      masterKeys: () => held,
      instance: 'i1',
      dataDir: null,
      nowMs,
      diagnostics: quiet,
    })
    closing.push(() => store.close())
    const { keyId, sealed } = await store.seal('prov_1', 'secret')
    expect((await opened(log.view(), newer)).open('prov_1', keyId, sealed)).toBe('secret')
  })
})

describe('the keys of an installation', () => {
  test('are those of the master key that began the chain, whichever is the current one', async () => {
    const log = memoryLog({ nowMs })
    await begin(log)
    const { signal } = new AbortController()
    for (const held of [[older], [older, newer], [newer, older]]) {
      const keys = await originalKeys(log, held, signal)
      expect(keys.decisionMac).toEqual(macKey)
    }
    expect((await originalKeys(memoryLog({ nowMs }), [newer, older], signal)).decisionMac).toEqual(
      decisionMacKey(newer),
    )
  })

  test('are not to be erased, nor taken for data keys', async () => {
    const log = memoryLog({ nowMs })
    const store = await opened(log.view(), older)
    await store.storeInstallation(derivedFrom(older))
    expect(store.ids.size).toBe(0)
    expect(store.olderThan(0)).toEqual([])
    for (const { key } of [...log.records(KEYS)]) await log.append(KEYS, 0, [{ key, value: null }])
    const other = await opened(log.view(), older)
    await expect(other.seal('prov_1', 'secret')).resolves.toBeDefined()
    expect(store.installation()).toEqual(derivedFrom(older))
  })
})
