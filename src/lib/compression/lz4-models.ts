// Chooses, for a part that is packed, an earlier part of the block to compare it with (`lz4-pack.ts`): records of a
// gateway resemble the record of their kind before them.

/** Kinds that are cached within a block; when there are more, all are dropped. */
const MOST_KINDS = 16

/** The last part of a kind and a length: digits that differ stand in the same places. */
interface Kind {
  readonly like: object | undefined
  readonly bytes: number
  start: number
}

/** The kinds of one block. */
export class Lz4Models {
  readonly #kinds: Kind[] = []

  /** Another block begins: parts refer to parts of their own block only. */
  forget(): void {
    this.#kinds.length = 0
  }

  /**
   * Where the last part of the same kind and length begins, or -1; this part takes its place. `like`: the same object
   * for parts of one kind. Without such a part: the last one of the same length (for example of another tenant), or
   * else of the same kind.
   */
  modelOf(like: object | undefined, bytes: number, start: number): number {
    const kinds = this.#kinds
    let sameBytes = -1
    let sameKind = -1
    for (let index = 0; index < kinds.length; index++) {
      const kind = kinds[index]!
      if (kind.bytes === bytes && kind.like === like) {
        const before = kind.start
        kind.start = start
        return before
      }
      if (kind.bytes === bytes) sameBytes = Math.max(sameBytes, kind.start)
      else if (kind.like === like) sameKind = Math.max(sameKind, kind.start)
    }
    if (kinds.length === MOST_KINDS) kinds.length = 0
    kinds.push({ like, bytes, start })
    return sameBytes >= 0 ? sameBytes : sameKind
  }
}
