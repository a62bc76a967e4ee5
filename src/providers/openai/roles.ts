// The role stands in the first delta of a choice and in no other: without it the SDKs fold no choice, and repeated it adds up to `assistantassistant`.
import { type Json, objectOf } from '../shared/read-json.ts'

export const hasRole = ({ role }: Json): boolean => typeof role === 'string' && role !== ''

const NAME = '"role"'
// biome-ignore format: as it may stand in an object: before another member, behind one
const SPELLINGS = ['"role":"assistant",', '"role": "assistant", ', ',"role":"assistant"', ', "role": "assistant"']

/** The text of a chunk without its only role; null when that is not to be told from the text. Unescaped quotes stand in no JSON string. */
export const withoutRole = (data: string): string | null => {
  const at = data.indexOf(NAME)
  if (at === -1 || data.indexOf(NAME, at + NAME.length) !== -1) return null
  for (const spelling of SPELLINGS) {
    const start = at - spelling.indexOf(NAME)
    if (data.startsWith(spelling, start)) return data.slice(0, start) + data.slice(start + spelling.length)
  }
  return null
}

/** Choices whose deltas name the role where they must and nowhere else; the same list when they did already. `begun`: choices that had a delta before. */
export const withRoles = (choices: readonly unknown[], begun: { has(index: number): boolean }): readonly unknown[] => {
  let changed = false
  const right = choices.map((value) => {
    const choice = objectOf(value)
    const delta = objectOf(choice.delta)
    const isFirst = !begun.has(typeof choice.index === 'number' ? choice.index : 0)
    if (hasRole(delta) === isFirst) return value
    changed = true
    const { role: _, ...rest } = delta
    return { ...choice, delta: isFirst ? { role: 'assistant', ...rest } : rest }
  })
  return changed ? right : choices
}
