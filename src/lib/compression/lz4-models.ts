// Where a packer is told to look for what it packs (`lz4-pack.ts`): records of a gateway are much like the one of their kind before them.

/** So many kinds are remembered within a block; all are forgotten together. */
const MOST_KINDS = 16

/** The last part of a kind, of as many bytes: digits that differ stand in the same places. */
interface Kind {
  readonly like: object | undefined
  readonly bytes: number
  start: number
}

/** Of one block. */
export class PackedKinds {
  readonly #kinds: Kind[] = []

  /** Another block begins: nothing is like what this one holds. */
  forget(): void {
    this.#kinds.length = 0
  }

  /**
   * Where the last part like this one begins, or -1; this one takes its place. `like`: the same object for parts of a kind. Where there is none of its kind and
   * length: one of its length, such as that of another tenant, or else of its kind.
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
