/** Whether two lists hold the same items in the same order, by identity. */
export const shallowEqual = (one: readonly unknown[], other: readonly unknown[]): boolean => {
  if (one === other) return true
  if (one.length !== other.length) return false
  for (let i = 0; i < one.length; i++) if (one[i] !== other[i]) return false
  return true
}
