// The recent requests of this process, for lookups before the read model has them. Bounded: the oldest make room.

export interface ServedRequest {
  /** Ours and unique. */
  readonly id: string
  /** The client's label, or the same as `id`. */
  readonly requestId: string
  readonly tenantId: string
  /** The provider that responded; null before the first call. */
  readonly providerId: string | null
  readonly modelId: string | null
}

/**
 * Each garbage collection scans the columns, so there are only as many as bridge the time until the read model has a
 * request.
 */
export const SERVED_KEPT = 8_192

/**
 * A ring of columns: adding a request costs a few writes, and there is no index to maintain. A lookup walks the ring
 * from the newest on; feedback does it, and a lookup of a request that the read model does not have.
 */
export class ServedRequests {
  readonly #ids: string[]
  readonly #labels: string[]
  readonly #tenants: string[]
  readonly #providers: (string | null)[]
  readonly #models: (string | null)[]
  #next = 0

  constructor(readonly kept = SERVED_KEPT) {
    const column = <Value>(value: Value): Value[] => new Array<Value>(kept).fill(value)
    this.#ids = column('')
    this.#labels = column('')
    this.#tenants = column('')
    this.#providers = column<string | null>(null)
    this.#models = column<string | null>(null)
  }

  /** Remembers a request; the answer is its place. */
  note(id: string, requestId: string, tenantId: string): number {
    const at = this.#next
    this.#next = at + 1 === this.kept ? 0 : at + 1
    this.#ids[at] = id
    this.#labels[at] = requestId
    this.#tenants[at] = tenantId
    this.#providers[at] = null
    this.#models[at] = null
    return at
  }

  /** Sets the candidate that is called. Without effect once the request has made room for another. */
  calling(at: number, id: string, providerId: string, modelId: string): void {
    if (this.#ids[at] !== id) return
    this.#providers[at] = providerId
    this.#models[at] = modelId
  }

  /**
   * By id, else the tenant's latest with that label (null: of all tenants). `foreign`: another tenant's, so that no
   * other source need be queried. Null: not in the ring.
   */
  find(idOrLabel: string, tenantId: string | null): ServedRequest | 'foreign' | null {
    let labelled: ServedRequest | null = null
    let isForeign = false
    if (idOrLabel === '') return null
    for (let back = 1; back <= this.kept; back++) {
      const at = (this.#next - back + this.kept) % this.kept
      const id = this.#ids[at]!
      if (id === '') break
      const isOwn = tenantId === null || this.#tenants[at] === tenantId
      if (id === idOrLabel && isOwn) return this.#at(at)
      if (id === idOrLabel) isForeign = true
      if (labelled === null && isOwn && this.#labels[at] === idOrLabel) labelled = this.#at(at)
    }
    return labelled ?? (isForeign ? 'foreign' : null)
  }

  #at(at: number): ServedRequest {
    return {
      id: this.#ids[at]!,
      requestId: this.#labels[at]!,
      tenantId: this.#tenants[at]!,
      providerId: this.#providers[at]!,
      modelId: this.#models[at]!,
    }
  }
}
