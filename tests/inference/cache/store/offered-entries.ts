// Offers a million entries to a store and prints by how much the memory of this process grew.
import { readFileSync } from 'node:fs'
import { MemoryStore } from '../../../../src/inference/cache/store/memory-store.ts'
import { FACTS, NOW_MS } from './stored-entry.ts'

const BOUND_BYTES = 128 * 1024 * 1024
const ENTRIES = 1_000_000

const offer = (store: MemoryStore, from: number, to: number): void => {
  const bytes = new Uint8Array(3_000)
  const digest = Buffer.alloc(32)
  for (let number = from; number < to; number++) {
    const random = Math.imul(number + 1, 0x9e3779b1) >>> 0
    digest.writeUInt32LE(random, 0)
    digest.writeUInt32LE(number, 4)
    store.put(digest.toString('hex'), FACTS, bytes.subarray(0, 300 + (random % 2_700)))
  }
}

/** Without the pages of the program, which the system takes when it needs them. */
const anonymousBytes = (): number =>
  Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))![1]) * 1_024

/** The least of several readings: the allocator returns what the collector frees after a while. */
const residentBytes = async (): Promise<number> => {
  let least = Number.POSITIVE_INFINITY
  for (let reading = 0; reading < 20; reading++) {
    Bun.gc(true)
    await Bun.sleep(20)
    least = Math.min(least, anonymousBytes())
  }
  return least
}

// What the program itself takes is there before.
offer(new MemoryStore({ maxBytes: 1024 * 1024, maxEntryBytes: 8_192, nowMs: () => NOW_MS }), 0, ENTRIES)
const before = await residentBytes()
const store = new MemoryStore({ maxBytes: BOUND_BYTES, maxEntryBytes: 8_192, nowMs: () => NOW_MS })
offer(store, 0, ENTRIES)
const grownBytes = (await residentBytes()) - before
console.log(JSON.stringify({ boundBytes: BOUND_BYTES, grownBytes, entries: store.size }))
