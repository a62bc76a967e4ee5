// Removes repeated keys: parsers differ in which one counts, so that the value that is checked may not be the one that
// is used.
import { type Edit, editMembers, topLevel } from './edit.ts'
import { editElements } from './elements.ts'

/** Depth of nested values that are searched. */
const MOST_DEPTH = 6
const OBJECT = 123
const ARRAY = 91

/**
 * The JSON text of a value in which of repeated keys only the last stays, as JSON.parse reads it. The same text when
 * there are none; all other bytes stay.
 */
export const withoutRepeats = (text: string, depth = MOST_DEPTH): string => {
  const code = text.charCodeAt(0)
  if (depth === 0) return text
  if (code === ARRAY) return editElements(text, (json) => changedOrNull(json, depth - 1))
  if (code !== OBJECT) return text
  const members = topLevel(text)
  const edits = new Map<string, Edit>()
  const keys = new Set<string>()
  for (const { key, valueStart, valueEnd } of members) {
    keys.add(key)
    const json = changedOrNull(text.slice(valueStart, valueEnd), depth - 1)
    // The last member of a key stays.
    if (json === null) edits.delete(key)
    else edits.set(key, { do: 'set', json })
  }
  return edits.size === 0 && keys.size === members.length ? text : editMembers(text, edits, members)
}

const changedOrNull = (text: string, depth: number): string | null => {
  const once = withoutRepeats(text, depth)
  return once === text ? null : once
}
