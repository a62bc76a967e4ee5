// Writes frames of AWS's event streams, for tests and fakes.

/** A string header; others as their type and bytes. */
export type Header = string | { readonly type: number; readonly value: Uint8Array }

const joined = (pieces: readonly Uint8Array[]): Uint8Array => new Uint8Array(Buffer.concat(pieces))
const number = (value: number, bytes: 1 | 2 | 4): Uint8Array => {
  const out = Buffer.alloc(bytes)
  out.writeUIntBE(value, 0, bytes)
  return out
}

/** One frame with correct lengths and checksums. */
export const awsEventFrame = (headers: Readonly<Record<string, Header>>, payload: string): Uint8Array => {
  const head = joined(
    Object.entries(headers).flatMap(([name, header]) => {
      const value = typeof header === 'string' ? Buffer.from(header) : header.value
      return [
        number(Buffer.byteLength(name), 1),
        Buffer.from(name),
        number(typeof header === 'string' ? 7 : header.type, 1),
        ...(typeof header === 'string' || header.type === 6 ? [number(value.length, 2)] : []),
        value,
      ]
    }),
  )
  const body = Buffer.from(payload)
  const lengths = joined([number(16 + head.length + body.length, 4), number(head.length, 4)])
  const frame = joined([lengths, number(Bun.hash.crc32(lengths), 4), head, body])
  return joined([frame, number(Bun.hash.crc32(frame), 4)])
}

/** As Bedrock sends an event. */
export const awsEvent = (type: string, payload: unknown): Uint8Array =>
  awsEventFrame(
    { ':event-type': type, ':content-type': 'application/json', ':message-type': 'event' },
    typeof payload === 'string' ? payload : JSON.stringify(payload),
  )

/** As Bedrock sends a failure in a stream. */
export const awsException = (type: string, payload: unknown): Uint8Array =>
  awsEventFrame(
    { ':message-type': 'exception', ':exception-type': type, ':content-type': 'application/json' },
    JSON.stringify(payload),
  )
