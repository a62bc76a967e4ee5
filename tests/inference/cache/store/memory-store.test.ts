import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import fc from 'fast-check'
import { MemoryStore } from '../../../../src/inference/cache/store/memory-store.ts'
import { FACTS, keyOf, NOW_MS, sealed, TestKeys } from './stored-entry.ts'

const MIB = 1024 * 1024
const open = (maxBytes = MIB, nowMs = () => NOW_MS) => new MemoryStore({ maxBytes, maxEntryBytes: 256 * 1024, nowMs })
const bytesOf = (length: number, fill = 1) => new Uint8Array(length).fill(fill)

describe('the memory store', () => {
  test('gives back what was put under a key, and counts hits', async () => {
    const store = open()
    const bytes = await sealed(new TestKeys(), keyOf(1))
    expect(store.put(keyOf(1), FACTS, bytes)).toBe(true)
    expect(Buffer.from(store.get(keyOf(1))!).equals(Buffer.from(bytes))).toBe(true)
    expect(store.get(keyOf(2))).toBeNull()
    store.hit(keyOf(1))
    expect(store.list(() => true, 10)).toEqual([{ key: keyOf(1), facts: FACTS, bytes: bytes.length, hits: 1 }])
    expect([store.size, store.bytes]).toEqual([1, bytes.length])
  })

  test('replaces an entry, and drops one that is expired', () => {
    let nowMs = NOW_MS
    const store = open(MIB, () => nowMs)
    store.put(keyOf(1), FACTS, bytesOf(600, 1))
    store.put(keyOf(1), FACTS, bytesOf(300, 2))
    expect(store.get(keyOf(1))).toEqual(bytesOf(300, 2))
    expect([store.size, store.bytes]).toEqual([1, 300])
    nowMs = FACTS.expiresMs
    expect(store.get(keyOf(1))).toBeNull()
    expect([store.size, store.bytes]).toEqual([0, 0])
  })

  test('the least recently used entry goes first', () => {
    const store = open(64 * 1024)
    let number = 0
    while (store.evicted === 0) {
      store.put(keyOf(number++), FACTS, bytesOf(1_000))
      store.get(keyOf(0))
    }
    expect(store.get(keyOf(0))).not.toBeNull()
    expect(store.get(keyOf(1))).toBeNull()
    expect(store.get(keyOf(number - 1))).not.toBeNull()
  })

  test('an entry above its bound, or above the store, is not stored and removes the one that it would replace', () => {
    const store = open(64 * 1024)
    store.put(keyOf(1), FACTS, bytesOf(10))
    expect(store.put(keyOf(1), FACTS, bytesOf(256 * 1024 + 1))).toBe(false)
    expect(store.put(keyOf(2), FACTS, bytesOf(100 * 1024))).toBe(false)
    expect(store.size).toBe(0)
  })

  test('flushes what matches, and counts it by mode; a dry run only counts', () => {
    const store = open()
    store.put(keyOf(1), FACTS, bytesOf(10))
    store.put(keyOf(2), { ...FACTS, mode: 'prefix', model: 'other' }, bytesOf(10))
    store.put(keyOf(3), { ...FACTS, mode: 'semantic', endpoint: 'chat' }, bytesOf(10))
    const small = ({ model }: { model: string }) => model === 'gpt-small'
    expect(store.removeMatching(small, true)).toEqual({ exact: 1, prefix: 0, semantic: 1 })
    expect(store.size).toBe(3)
    expect(store.removeMatching(small)).toEqual({ exact: 1, prefix: 0, semantic: 1 })
    expect(store.removeMatching(() => true)).toEqual({ exact: 0, prefix: 1, semantic: 0 })
    expect(store.size).toBe(0)
  })

  test('removes what a request filled', async () => {
    const store = open()
    const keys = new TestKeys()
    for (const number of [1, 2, 3]) {
      const facts = { ...FACTS, originId: number === 2 ? 'req_2' : 'req_1' }
      store.put(keyOf(number), facts, await sealed(keys, keyOf(number), facts))
    }
    expect(store.removeOrigin('req_1')).toBe(2)
    expect(store.list(() => true, 10).map(({ key }) => key)).toEqual([keyOf(2)])
  })

  test('a pointer leads from a conversation to the entry that keeps its answer, and is no entry', async () => {
    const store = open()
    store.put(keyOf(2), FACTS, await sealed(new TestKeys(), keyOf(2)))
    store.point(keyOf(1), FACTS, keyOf(2))
    expect(store.pointed(keyOf(1))).toBe(keyOf(2))
    expect([store.get(keyOf(1)), store.size]).toEqual([null, 1])
    expect(store.list(() => true, 10).length).toBe(1)
    expect(store.removeMatching(() => true)).toEqual({ exact: 1, prefix: 0, semantic: 0 })
    expect(store.pointed(keyOf(1))).toBeNull()
  })

  test('whatever happens, it holds what a plain map with the same rule holds', () => {
    const step = fc.record({
      key: fc.nat({ max: 60 }),
      length: fc.integer({ min: 1, max: 3_000 }),
      what: fc.constantFrom('put', 'put', 'get', 'remove'),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const store = open(32 * 1024)
        const model = new Map<string, Uint8Array>()
        for (const { key: number, length, what } of steps) {
          const key = keyOf(number)
          const evicted = store.evicted
          if (what === 'put') {
            model.delete(key)
            store.put(key, FACTS, bytesOf(length, number + 1))
            for (let gone = store.evicted - evicted; gone > 0; gone--) model.delete([...model.keys()][0]!)
            model.set(key, bytesOf(length, number + 1))
          } else if (what === 'remove') expect(store.remove(key)).toBe(model.delete(key))
          else {
            const value = model.get(key)
            expect(store.get(key)).toEqual(value ?? null)
            if (value !== undefined) {
              model.delete(key)
              model.set(key, value)
            }
          }
          expect(store.size).toBe(model.size)
        }
        expect(store.bytes).toBe([...model.values()].reduce((sum, { length }) => sum + length, 0))
        for (const [key, bytes] of model) expect(store.get(key)).toEqual(bytes)
      }),
      { numRuns: 200 },
    )
  })

  test('1,000,000 entries offered: the memory of the process stays within 5 % of the bound', async () => {
    const script = join(import.meta.dir, 'offered-entries.ts')
    const child = Bun.spawn([process.execPath, script], { stdout: 'pipe', stderr: 'inherit' })
    const { boundBytes, grownBytes, entries } = JSON.parse(await new Response(child.stdout).text()) as Record<
      string,
      number
    >
    expect(entries).toBeGreaterThan(10_000)
    expect(grownBytes! / boundBytes!).toBeGreaterThan(0.95)
    expect(grownBytes! / boundBytes!).toBeLessThan(1.05)
  }, 120_000)
})
