// IP addresses and CIDR ranges as numbers. Inputs must be valid (`isIP` of node:net).

/** The leading `bits` of `base`. */
export type Range = readonly [base: bigint, bits: number]

/** An IPv4 address as a number. */
export const v4 = (text: string): bigint => text.split('.').reduce((sum, part) => sum * 256n + BigInt(part), 0n)

/** Eight groups of a valid IPv6 address, `::` and a dotted tail included. */
export const v6 = (text: string): bigint => {
  const zone = text.indexOf('%')
  let address = zone === -1 ? text : text.slice(0, zone)
  const dotted = address.lastIndexOf(':') + 1
  if (address.includes('.')) {
    const tail = v4(address.slice(dotted))
    address = `${address.slice(0, dotted)}${(tail >> 16n).toString(16)}:${(tail & 0xffffn).toString(16)}`
  }
  const [head = '', rest] = address.split('::')
  const left = head === '' ? [] : head.split(':')
  const right = rest === undefined || rest === '' ? [] : rest.split(':')
  const zeros = rest === undefined ? 0 : 8 - left.length - right.length
  const groups = [...left, ...Array.from({ length: zeros }, () => '0'), ...right]
  return groups.reduce((sum, group) => (sum << 16n) + BigInt(`0x${group}`), 0n)
}

export const range4 = (text: string): Range => {
  const [base = '', bits] = text.split('/')
  return [v4(base), Number(bits)]
}
export const range6 = (text: string): Range => {
  const [base = '', bits] = text.split('/')
  return [v6(base), Number(bits)]
}
export const within = (value: bigint, ranges: readonly Range[], width: number) =>
  ranges.some(([base, bits]) => value >> BigInt(width - bits) === base >> BigInt(width - bits))

/**
 * The network of a client, within which it may choose addresses freely: of IPv6 the first 64 bits, of IPv4 the whole
 * address.
 */
export const networkOf = (address: string): string =>
  address.includes(':') ? `${(v6(address) >> 64n).toString(16)}/64` : address
