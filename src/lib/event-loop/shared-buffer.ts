// A buffer for large bodies that are needed within one synchronous stretch only: those that are assembled to be read or
// sent. As garbage of their own they would cause full collections of 15 to 40 ms (`bench -- scale --only=prompt`).

export const SHARED_BUFFER_BYTES = 1024 * 1024
// Mutable: made on first use, since most processes assemble no large body.
let shared: Buffer | null = null

/**
 * A buffer of at least `bytes` bytes, valid until the next call by any caller: it must not be used across an `await`.
 * It holds bytes of other tenants' bodies, so a caller reads only what it has written itself. Larger sizes get memory
 * of their own.
 */
export const sharedBuffer = (bytes: number): Buffer => {
  if (bytes > SHARED_BUFFER_BYTES) return Buffer.allocUnsafeSlow(bytes)
  shared ??= Buffer.allocUnsafeSlow(SHARED_BUFFER_BYTES)
  return shared
}
