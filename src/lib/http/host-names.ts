// The names by which a client may address the gateway, as they stand in `Host`.

/** A host and its port: null when none is written. */
export interface HostName {
  /** Lower case, without brackets and without a dot at the end. */
  readonly name: string
  readonly port: string | null
}

/** `Example.com:8080`, `[::1]:8080`, `127.0.0.1`, also an address without brackets; null for a text that is none. */
export const hostNameOf = (text: string): HostName | null => {
  const plain = text.trim().toLowerCase()
  const [, bracketed, named, port] =
    /^(?:\[([0-9a-f:.]+)\]|([a-z0-9_](?:[a-z0-9._-]*)))(?::(\d{1,5}))?$/.exec(plain) ?? []
  const name = bracketed ?? named?.replace(/\.$/, '')
  if (name !== undefined && name !== '') return { name, port: port ?? null }
  return /^[0-9a-f:.]*:[0-9a-f:.]*$/.test(plain) && URL.canParse(`http://[${plain}]`)
    ? { name: plain, port: null }
    : null
}

/** Whether an address or a name stands for this machine alone. */
export const isLoopbackName = (name: string): boolean =>
  name === 'localhost' || name === '::1' || /^127(?:\.\d{1,3}){3}$/.test(name)
