// Key digest -> active key, in columns: a million keys are a few typed arrays and one array of ids, not a million objects.
import type { ApiKeyRow } from '../domain/api-key.ts'
import type { KeyEntry, KeyIndex, LiveState } from './port.ts'

const DIGEST_BYTES = 32
const FIRST_CAPACITY = 1_024
const MAX_ENTRIES = 8_192
const FREE = -1

/** Values that many keys share, stored once and for as long as a key has them. */
class Interned<Value> {
  readonly #values: ({ readonly text: string; readonly value: Value; uses: number } | null)[] = []
  readonly #numbers = new Map<string, number>()
  readonly #free: number[] = []

  get size(): number {
    return this.#numbers.size
  }

  value(number: number): Value {
    return this.#values[number]!.value
  }

  take(text: string, value: () => Value): number {
    const known = this.#numbers.get(text)
    if (known !== undefined) {
      this.#values[known]!.uses += 1
      return known
    }
    const number = this.#free.pop() ?? this.#values.length
    this.#values[number] = { text, value: value(), uses: 1 }
    this.#numbers.set(text, number)
    return number
  }

  release(number: number): void {
    const held = this.#values[number]!
    held.uses -= 1
    if (held.uses > 0) return
    this.#numbers.delete(held.text)
    this.#values[number] = null
    this.#free.push(number)
  }
}

/** An index that follows the live fold from now on. */
export const openKeyIndex = (live: Pick<LiveState, 'control' | 'subscribe' | 'refused'>): KeyIndex => {
  const index = new Columns()
  for (const [id, row] of live.control.table('keys').rows()) if (!live.refused.has(id)) index.put(row)
  live.subscribe(({ changes, refused }) => {
    for (const { table, before, after } of changes) {
      if (table !== 'keys') continue
      if (before !== null) index.remove(before as ApiKeyRow)
      if (after !== null && !live.refused.has((after as ApiKeyRow).id)) index.put(after as ApiKeyRow)
    }
    for (const id of refused) {
      const row = live.control.table('keys').get(id)
      if (row !== undefined) index.remove(row)
    }
  })
  return index
}

/** Exported for the bench, which fills it without a log. */
export class Columns implements KeyIndex {
  #capacity = FIRST_CAPACITY
  #rows = 0
  #size = 0
  readonly #freeRows: number[] = []
  #digests = new Uint8Array(FIRST_CAPACITY * DIGEST_BYTES)
  #tenants = new Uint32Array(FIRST_CAPACITY)
  #scopeSets = new Uint32Array(FIRST_CAPACITY)
  /** Row in `#policies`, plus one; 0: none. */
  #policies = new Uint32Array(FIRST_CAPACITY)
  /** NaN: never. */
  #expiries = new Float64Array(FIRST_CAPACITY)
  /** The very strings of the rows. */
  readonly #ids: string[] = []
  /** Open addressing: row number or FREE; twice as many slots as rows. */
  #slots = new Int32Array(FIRST_CAPACITY * 2).fill(FREE)
  readonly #tenantIds = new Interned<string>()
  readonly #policyIds = new Interned<string>()
  readonly #scopes = new Interned<readonly string[]>()
  /** Entries that were looked up lately, by row. */
  readonly #entries = new Map<number, KeyEntry>()

  get size(): number {
    return this.#size
  }

  /** How many different values the keys share: tenants, policies, sets of scopes. */
  get sharedValues(): number {
    return this.#tenantIds.size + this.#policyIds.size + this.#scopes.size
  }

  lookup(digestHex: string): KeyEntry | null {
    const slot = this.#find(digestOf(digestHex))
    if (slot === null) return null
    const row = this.#slots[slot]!
    const known = this.#entries.get(row)
    if (known !== undefined) return known
    const policy = this.#policies[row]!
    const expiresAtMs = this.#expiries[row]!
    const entry = Object.freeze({
      id: this.#ids[row]!,
      tenantId: this.#tenantIds.value(this.#tenants[row]!),
      scopes: this.#scopes.value(this.#scopeSets[row]!),
      expiresAtMs: Number.isNaN(expiresAtMs) ? null : expiresAtMs,
      routingPolicyId: policy === 0 ? null : this.#policyIds.value(policy - 1),
    })
    if (this.#entries.size === MAX_ENTRIES) this.#entries.clear()
    this.#entries.set(row, entry)
    return entry
  }

  /** Takes in an active key; one that is not active is left out. */
  put(key: ApiKeyRow): void {
    if (key.status !== 'active') return
    const digest = digestOf(key.digest)
    const existing = this.#find(digest)
    const row = existing === null ? this.#newRow(digest) : this.#slots[existing]!
    if (existing !== null) this.#release(row)
    this.#ids[row] = key.id
    this.#tenants[row] = this.#tenantIds.take(key.tenant_id, () => key.tenant_id)
    this.#scopeSets[row] = this.#scopes.take(key.scopes.join('\n'), () => Object.freeze([...key.scopes]))
    const policy = key.routing_policy_id
    this.#policies[row] = policy === null ? 0 : this.#policyIds.take(policy, () => policy) + 1
    this.#expiries[row] = key.expires_at === null ? Number.NaN : expiryOf(key.expires_at)
    this.#entries.delete(row)
  }

  remove(key: ApiKeyRow): void {
    if (key.status !== 'active') return
    const slot = this.#find(digestOf(key.digest))
    if (slot === null) return
    const row = this.#slots[slot]!
    if (this.#ids[row] !== key.id) return
    this.#close(slot)
    this.#release(row)
    this.#ids[row] = ''
    this.#digests.fill(0, row * DIGEST_BYTES, (row + 1) * DIGEST_BYTES)
    this.#entries.delete(row)
    this.#freeRows.push(row)
    this.#size -= 1
  }

  #release(row: number): void {
    this.#tenantIds.release(this.#tenants[row]!)
    this.#scopes.release(this.#scopeSets[row]!)
    const policy = this.#policies[row]!
    if (policy !== 0) this.#policyIds.release(policy - 1)
  }

  #newRow(digest: Uint8Array): number {
    if (this.#freeRows.length === 0 && this.#rows === this.#capacity) this.#grow()
    const row = this.#freeRows.pop() ?? this.#rows++
    this.#digests.set(digest, row * DIGEST_BYTES)
    this.#occupy(row)
    this.#size += 1
    return row
  }

  #home(digest: Uint8Array, at = 0): number {
    const hash = digest[at]! | (digest[at + 1]! << 8) | (digest[at + 2]! << 16) | (digest[at + 3]! << 24)
    return (hash >>> 0) & (this.#slots.length - 1)
  }

  #find(digest: Uint8Array): number | null {
    const mask = this.#slots.length - 1
    for (let slot = this.#home(digest); ; slot = (slot + 1) & mask) {
      const row = this.#slots[slot]!
      if (row === FREE) return null
      if (this.#matches(row, digest)) return slot
    }
  }

  /** The digest of a 256-bit secret is looked up: what the time of this tells is of no use without a preimage. */
  #matches(row: number, digest: Uint8Array): boolean {
    const from = row * DIGEST_BYTES
    for (let index = 0; index < DIGEST_BYTES; index++) if (this.#digests[from + index] !== digest[index]) return false
    return true
  }

  #occupy(row: number): void {
    const mask = this.#slots.length - 1
    let slot = this.#home(this.#digests, row * DIGEST_BYTES)
    while (this.#slots[slot] !== FREE) slot = (slot + 1) & mask
    this.#slots[slot] = row
  }

  /** Frees a slot and moves back what would no longer be found behind it. */
  #close(slot: number): void {
    const mask = this.#slots.length - 1
    let gap = slot
    for (let at = (slot + 1) & mask; this.#slots[at] !== FREE; at = (at + 1) & mask) {
      const home = this.#home(this.#digests, this.#slots[at]! * DIGEST_BYTES)
      const stays = gap <= at ? gap < home && home <= at : gap < home || home <= at
      if (stays) continue
      this.#slots[gap] = this.#slots[at]!
      gap = at
    }
    this.#slots[gap] = FREE
  }

  #grow(): void {
    const larger = <Column extends Uint8Array | Uint32Array | Float64Array>(column: Column, fresh: Column): Column => {
      fresh.set(column)
      return fresh
    }
    this.#capacity *= 2
    this.#digests = larger(this.#digests, new Uint8Array(this.#capacity * DIGEST_BYTES))
    this.#tenants = larger(this.#tenants, new Uint32Array(this.#capacity))
    this.#scopeSets = larger(this.#scopeSets, new Uint32Array(this.#capacity))
    this.#policies = larger(this.#policies, new Uint32Array(this.#capacity))
    this.#expiries = larger(this.#expiries, new Float64Array(this.#capacity))
    this.#slots = new Int32Array(this.#capacity * 2).fill(FREE)
    for (let row = 0; row < this.#rows; row++) this.#occupy(row)
  }
}

/** 32 bytes; for a text that is no digest those of none. */
const digestOf = (hex: string): Uint8Array => {
  const bytes = Buffer.from(hex, 'hex')
  return bytes.length === DIGEST_BYTES ? bytes : NO_DIGEST
}
/** Never stored: no text has the all-zero digest. */
const NO_DIGEST = new Uint8Array(DIGEST_BYTES)

/** Unix milliseconds; a time that cannot be read has passed: such a key must not live for ever. */
const expiryOf = (text: string): number => {
  const atMs = Date.parse(text)
  return Number.isNaN(atMs) ? 0 : atMs
}
