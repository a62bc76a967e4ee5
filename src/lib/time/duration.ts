// Durations as the API and the settings write them: `30s`, `1h30m`, `250ms`. Hours are the largest unit: a day is
// `24h`.

const UNIT_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Milliseconds, or null when the text is not a duration (`7d`, `5`, the empty text). */
export const durationMs = (text: string): number | null => {
  if (!/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(text)) return null
  let total = 0
  for (const [, amount, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)) total += Number(amount) * UNIT_MS[unit!]!
  return Math.round(total)
}
