// "Did you mean": the listed name that a mistyped one most likely stands for.

/** The name within two edits (one, for names of up to four letters), or null. */
export const nearest = (typed: string, names: Iterable<string>): string | null => {
  let best: string | null = null
  let least = typed.length <= 4 ? 2 : 3
  for (const name of names) {
    const edits = distance(typed.toLowerCase(), name.toLowerCase())
    if (edits < least) {
      best = name
      least = edits
    }
  }
  return best
}

/**
 * Edits between two names: a letter added, dropped, changed, or swapped with its neighbour. Longer names than 64
 * characters count as infinitely far, which bounds the steps.
 */
const distance = (left: string, right: string): number => {
  if (left.length > 64 || right.length > 64) return Number.POSITIVE_INFINITY
  let beforeLast: number[] = []
  let last = Array.from({ length: right.length + 1 }, (_, i) => i)
  for (let i = 1; i <= left.length; i++) {
    const row = [i]
    for (let j = 1; j <= right.length; j++) {
      const same = left[i - 1] === right[j - 1]
      const swapped = i > 1 && j > 1 && left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1]
      row[j] = Math.min(
        last[j]! + 1,
        row[j - 1]! + 1,
        last[j - 1]! + (same ? 0 : 1),
        swapped ? beforeLast[j - 2]! + 1 : Number.POSITIVE_INFINITY,
      )
    }
    beforeLast = last
    last = row
  }
  return last[right.length]!
}
