// The vectors of last messages by partition, searched one by one: within a partition everything else is equal, so that
// there are few. Bounded by bytes; the partition that was not used for the longest time goes first.
import { lengthOf, productOf } from './vector.ts'

/** A partition holds so many vectors, or what fits the bound; a further one takes the place of the oldest. */
const MOST_VECTORS = 4_096
/** Bytes of an entry beside its vector: its key, twice, and the objects. */
const ENTRY_BYTES = 384

export interface Likely {
  /** Key of the entry. */
  readonly key: string
  /** From -1 to 1. */
  readonly similarity: number
}

interface Partition {
  readonly dimensions: number
  /** Vectors at most. */
  readonly most: number
  /** Grows by doubling. */
  vectors: Int8Array
  readonly lengths: number[]
  /** Null: removed. */
  readonly keys: (string | null)[]
  readonly places: Map<string, number>
  next: number
}

export class VectorIndex {
  /** The least recently used first. */
  readonly #partitions = new Map<string, Partition>()
  readonly #partitionOf = new Map<string, string>()
  #bytes = 0

  constructor(private readonly maxBytes: number) {}

  /** Vectors. */
  get size(): number {
    return this.#partitionOf.size
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Adds the vector of an entry, or replaces it. One of another length than its partition's is left out. */
  add(partition: string, key: string, vector: Int8Array): void {
    this.remove(key)
    let found = this.#partitions.get(partition)
    if (found === undefined) {
      found = this.#newPartition(vector.length)
      this.#partitions.set(partition, found)
    }
    if (found.dimensions !== vector.length) return
    this.#use(partition, found)
    const place = found.next % found.most
    const replaced = found.keys[place] ?? null
    if (replaced !== null) this.remove(replaced)
    // Removing the last one of a partition removes the partition.
    this.#partitions.set(partition, found)
    this.#grow(found, place + 1)
    found.vectors.set(vector, place * found.dimensions)
    found.lengths[place] = lengthOf(vector)
    found.keys[place] = key
    found.places.set(key, place)
    found.next = place + 1
    this.#partitionOf.set(key, partition)
    this.#bytes += ENTRY_BYTES
    while (this.#bytes > this.maxBytes && this.#partitions.size > 1) this.#dropOldest(partition)
  }

  remove(key: string): void {
    const partition = this.#partitionOf.get(key)
    if (partition === undefined) return
    const found = this.#partitions.get(partition)!
    found.keys[found.places.get(key)!] = null
    found.places.delete(key)
    this.#partitionOf.delete(key)
    this.#bytes -= ENTRY_BYTES
    if (found.places.size === 0) this.#drop(partition, found)
  }

  /** The entries of a partition at or above a similarity, the most similar first, at most `limit`. */
  search(partition: string, vector: Int8Array, similarity: number, limit: number): readonly Likely[] {
    const found = this.#partitions.get(partition)
    if (found === undefined || found.dimensions !== vector.length) return []
    this.#use(partition, found)
    const length = lengthOf(vector)
    const likely: Likely[] = []
    for (let place = 0; place < found.keys.length; place++) {
      const key = found.keys[place]
      if (key === null || key === undefined) continue
      const product = productOf(found.vectors, place * found.dimensions, vector)
      const value = product / (length * found.lengths[place]!)
      if (value >= similarity) likely.push({ key, similarity: Math.min(1, value) })
    }
    return likely.sort((left, right) => right.similarity - left.similarity).slice(0, limit)
  }

  #newPartition(dimensions: number): Partition {
    const most = Math.max(1, Math.min(MOST_VECTORS, Math.floor(this.maxBytes / (dimensions + ENTRY_BYTES))))
    return { dimensions, most, vectors: new Int8Array(0), lengths: [], keys: [], places: new Map(), next: 0 }
  }

  #use(partition: string, found: Partition): void {
    this.#partitions.delete(partition)
    this.#partitions.set(partition, found)
  }

  #grow(found: Partition, places: number): void {
    const needed = places * found.dimensions
    if (found.vectors.length >= needed) return
    const grown = new Int8Array(Math.min(found.most, 2 ** Math.ceil(Math.log2(Math.max(4, places)))) * found.dimensions)
    grown.set(found.vectors)
    this.#bytes += grown.length - found.vectors.length
    found.vectors = grown
  }

  #dropOldest(except: string): void {
    for (const [partition, found] of this.#partitions) {
      if (partition === except) continue
      for (const key of found.places.keys()) this.#partitionOf.delete(key)
      this.#bytes -= ENTRY_BYTES * found.places.size
      this.#drop(partition, found)
      return
    }
  }

  #drop(partition: string, found: Partition): void {
    this.#partitions.delete(partition)
    this.#bytes -= found.vectors.length
    found.vectors = new Int8Array(0)
  }
}
