// The entries of one process: the least recently used one goes first, and all of it together stays within a bound of
// bytes. Keys, links and bytes stand in arrays of fixed size (`BlockArena`), so that the bound is that of the process'
// memory and not only of what is counted.
import { BLOCK_OVERHEAD_BYTES, BlockArena } from '../../../lib/collections/block-arena.ts'
import { sha256Hex } from '../../../lib/crypto/digest.ts'
import type { EntrySubject } from '../flush.ts'
import type { CacheMode } from '../rule.ts'
import { type EntryFacts, readFacts } from './entry.ts'
import { KeyTable, TABLE_BYTES } from './key-table.ts'
import { NamePool } from './name-pool.ts'
import { RECENCY_BYTES, RecencyList } from './recency-list.ts'

const BLOCK_BYTES = 256
/** An entry takes four blocks at least: shorter ones reach the bound of entries before that of bytes. */
const BLOCKS_AN_ENTRY = 4
const KEY_BYTES = 32
const MODES: readonly CacheMode[] = ['exact', 'prefix', 'semantic']
/** In place of a mode: the bytes are the key of the entry that keeps the answer. */
const POINTER = MODES.length
/** Tenant, model, provider, endpoint scope, key. */
const NAMES = 5
/** First block, length, hits, hash of the origin, expiry; names; mode. */
const SLOT_BYTES = 5 * 4 + NAMES * 4 + 1

export interface MemoryStoreDeps {
  readonly maxBytes: number
  readonly maxEntryBytes: number
  readonly nowMs: () => number
}

/** An entry as reads show it. */
export interface EntryView {
  /** 64 hex digits. */
  readonly key: string
  readonly facts: EntryFacts
  readonly bytes: number
  readonly hits: number
}

export type RemovedCounts = Readonly<Record<CacheMode, number>>

export class MemoryStore {
  readonly #arena: BlockArena
  readonly #table: KeyTable
  readonly #recency: RecencyList
  readonly #names = new NamePool()
  readonly #digest = Buffer.alloc(KEY_BYTES)
  readonly #first: Int32Array
  readonly #length: Int32Array
  readonly #hits: Uint32Array
  readonly #origin: Int32Array
  /** Seconds since 1970, rounded up: the entry itself knows the millisecond. */
  readonly #expires: Uint32Array
  readonly #nameOf: Int32Array
  readonly #mode: Uint8Array
  #entries = 0
  #bytes = 0
  #evicted = 0

  constructor(private readonly deps: MemoryStoreDeps) {
    const perBlock = BLOCK_BYTES + BLOCK_OVERHEAD_BYTES + (SLOT_BYTES + TABLE_BYTES + RECENCY_BYTES) / BLOCKS_AN_ENTRY
    const blocks = Math.max(BLOCKS_AN_ENTRY, Math.floor(deps.maxBytes / perBlock))
    const slots = Math.floor(blocks / BLOCKS_AN_ENTRY)
    this.#arena = new BlockArena(blocks, BLOCK_BYTES)
    this.#table = new KeyTable(slots)
    this.#recency = new RecencyList(slots)
    this.#first = new Int32Array(slots)
    this.#length = new Int32Array(slots)
    this.#hits = new Uint32Array(slots)
    this.#origin = new Int32Array(slots)
    this.#expires = new Uint32Array(slots)
    this.#nameOf = new Int32Array(slots * NAMES)
    this.#mode = new Uint8Array(slots)
  }

  /** Entries. */
  get size(): number {
    return this.#entries
  }

  /** Bytes of the entries, as they are stored. */
  get bytes(): number {
    return this.#bytes
  }

  /** Entries that had to go for others, since the start. */
  get evicted(): number {
    return this.#evicted
  }

  /** The bytes of an entry, which becomes the most recently used one. Null: there is none that may be served. */
  get(key: string): Uint8Array | null {
    const slot = this.#slotOf(key)
    if (slot < 0) return null
    if (this.#isExpired(slot)) {
      this.#drop(slot)
      return null
    }
    this.#recency.touch(slot)
    return this.#read(slot)
  }

  /** Counts a hit of an entry. */
  hit(key: string): void {
    const slot = this.#slotOf(key)
    if (slot >= 0) this.#hits[slot]! += 1
  }

  /** Stores an entry in place of the one that has the key. False: it is too large. */
  put(key: string, facts: EntryFacts, bytes: Uint8Array): boolean {
    return this.#put(key, facts, bytes, MODES.indexOf(facts.mode))
  }

  /** Stores that the answer of a conversation is kept by the entry of a longer one, with the facts of that entry. */
  point(key: string, facts: EntryFacts, target: string): boolean {
    return this.#put(pointerOf(key), facts, Buffer.from(target, 'hex'), POINTER)
  }

  /** The key of the entry that keeps the answer of a conversation; null: none is known. */
  pointed(key: string): string | null {
    const target = this.get(pointerOf(key))
    return target === null ? null : Buffer.from(target).toString('hex')
  }

  #put(key: string, facts: EntryFacts, bytes: Uint8Array, mode: number): boolean {
    this.remove(key)
    const length = KEY_BYTES + bytes.length
    const blocks = this.#arena.blocksOf(length)
    if (bytes.length > this.deps.maxEntryBytes || blocks > this.#arena.blocks) return false
    while (this.#arena.free < blocks || this.#recency.isFull) {
      const { oldest } = this.#recency
      if (this.#mode[oldest] !== POINTER) this.#evicted += 1
      this.#drop(oldest)
    }
    const digest = this.#digestOf(key)
    const slot = this.#recency.add()
    this.#first[slot] = this.#arena.write(digest, bytes)
    this.#length[slot] = length
    this.#hits[slot] = 0
    this.#origin[slot] = hashOf(facts.originId)
    this.#expires[slot] = Math.ceil(facts.expiresMs / 1_000)
    this.#mode[slot] = mode
    const names = [facts.tenantId, facts.model, facts.provider, facts.endpoint, facts.keyId]
    for (let i = 0; i < NAMES; i++) this.#nameOf[slot * NAMES + i] = this.#names.take(names[i]!)
    this.#table.add(digest, slot)
    if (mode !== POINTER) this.#entries += 1
    this.#bytes += bytes.length
    return true
  }

  /** False: there was none. */
  remove(key: string): boolean {
    const slot = this.#slotOf(key)
    if (slot < 0) return false
    this.#drop(slot)
    return true
  }

  /** Removes the entries that a request filled; returns how many. */
  removeOrigin(originId: string): number {
    const hash = hashOf(originId)
    let removed = 0
    for (const slot of this.#recency.slots()) {
      if (
        this.#origin[slot] !== hash ||
        this.#mode[slot] === POINTER ||
        readFacts(this.#read(slot))?.originId !== originId
      )
        continue
      this.#drop(slot)
      removed += 1
    }
    return removed
  }

  /** Counts the entries that match, and removes them unless it is a dry run. */
  removeMatching(matches: (entry: EntrySubject) => boolean, isDryRun = false): RemovedCounts {
    const removed = { exact: 0, prefix: 0, semantic: 0 }
    for (const slot of this.#recency.slots()) {
      const subject = this.#subjectOf(slot)
      if (!matches(subject)) continue
      if (this.#mode[slot] !== POINTER) removed[subject.mode] += 1
      if (!isDryRun) this.#drop(slot)
    }
    return removed
  }

  /** Entries that match, the most recently used first, at most `limit`. */
  list(matches: (entry: EntrySubject) => boolean, limit: number): EntryView[] {
    const found: EntryView[] = []
    for (const slot of this.#recency.slots()) {
      if (found.length >= limit) break
      if (this.#mode[slot] === POINTER) continue
      if (!matches(this.#subjectOf(slot)) || this.#isExpired(slot)) continue
      const bytes = this.#read(slot)
      const facts = readFacts(bytes)
      if (facts === null) continue
      const key = Buffer.from(this.#arena.read(this.#first[slot]!, 0, KEY_BYTES)).toString('hex')
      found.push({ key, facts, bytes: bytes.length, hits: this.#hits[slot]! })
    }
    return found
  }

  #slotOf(key: string): number {
    const digest = this.#digestOf(key)
    return this.#table.find(digest, (slot) => this.#arena.startsWith(this.#first[slot]!, digest))
  }

  #isExpired(slot: number): boolean {
    return this.#expires[slot]! * 1_000 <= this.deps.nowMs()
  }

  /** In bytes that the next call overwrites. */
  #digestOf(key: string): Uint8Array {
    this.#digest.write(key, 'hex')
    return this.#digest
  }

  #read(slot: number): Uint8Array {
    return this.#arena.read(this.#first[slot]!, KEY_BYTES, this.#length[slot]!)
  }

  #subjectOf(slot: number): EntrySubject {
    const name = (i: number): string | null => this.#names.nameOf(this.#nameOf[slot * NAMES + i]!)
    return {
      tenantId: name(0)!,
      model: name(1)!,
      provider: name(2)!,
      endpoint: name(3),
      keyId: name(4)!,
      mode: MODES[this.#mode[slot]!] ?? 'prefix',
    }
  }

  #drop(slot: number): void {
    const digest = this.#arena.read(this.#first[slot]!, 0, KEY_BYTES)
    this.#table.remove(digest, slot)
    if (this.#mode[slot] !== POINTER) this.#entries -= 1
    this.#bytes -= this.#length[slot]! - KEY_BYTES
    this.#arena.release(this.#first[slot]!)
    for (let i = 0; i < NAMES; i++) this.#names.release(this.#nameOf[slot * NAMES + i]!)
    this.#recency.remove(slot)
  }
}

/** Under a key of its own: the conversation may have an entry besides. */
const pointerOf = (key: string): string => sha256Hex(`turn\n${key}`)

const hashOf = (text: string): number => {
  let hash = 0
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0
  return hash
}
