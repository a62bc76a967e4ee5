// The requests that this process has served of late, for feedback that comes before the read model has them. Bounded: the oldest make room.

/** Who answered is filled in while the request runs. */
export interface ServedRequest {
  /** Ours and unique. */
  readonly id: string
  /** The client's label, or the same as `id`. */
  readonly requestId: string
  readonly tenantId: string
  providerId: string | null
  modelId: string | null
}

export const SERVED_KEPT = 65_536

export class ServedRequests {
  readonly #ring: (ServedRequest | undefined)[] = []
  readonly #byId = new Map<string, ServedRequest>()
  /** The latest of each label, of each tenant. */
  readonly #byLabel = new Map<string, ServedRequest>()
  #next = 0

  constructor(readonly kept = SERVED_KEPT) {}

  note(id: string, requestId: string, tenantId: string): ServedRequest {
    const served: ServedRequest = { id, requestId, tenantId, providerId: null, modelId: null }
    const oldest = this.#ring[this.#next]
    if (oldest !== undefined) this.#forget(oldest)
    this.#ring[this.#next] = served
    this.#next = this.#next + 1 === this.kept ? 0 : this.#next + 1
    this.#byId.set(id, served)
    if (requestId !== id) this.#byLabel.set(labelKey(tenantId, requestId), served)
    return served
  }

  /** By id, else the tenant's latest with that label. `foreign`: another tenant's, so that nobody else has to be asked. Null: not known here. */
  find(idOrLabel: string, tenantId: string): ServedRequest | 'foreign' | null {
    const byId = this.#byId.get(idOrLabel)
    if (byId !== undefined && byId.tenantId === tenantId) return byId
    return this.#byLabel.get(labelKey(tenantId, idOrLabel)) ?? (byId === undefined ? null : 'foreign')
  }

  #forget(served: ServedRequest): void {
    this.#byId.delete(served.id)
    const key = labelKey(served.tenantId, served.requestId)
    if (this.#byLabel.get(key) === served) this.#byLabel.delete(key)
  }
}

const labelKey = (tenantId: string, label: string): string => `${tenantId}/${label}`
