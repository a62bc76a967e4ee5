// Which members of what clients and settings say are names, and which names are refused. One rule for both; what older logs hold stays as it is.
import { nameError } from '../../lib/text/storable-text.ts'

/** Members that hold names, or lists of them, wherever they stand. A reason, a description, a prompt or a secret may have lines. */
const NAMES: ReadonlySet<string> = new Set([
  ...['name', 'slug', 'aliases', 'plan', 'tenant', 'routing_policy', 'target', 'scopes', 'id', 'regions', 'region'],
  ...['provider', 'providers', 'only', 'order', 'ignore', 'preferred_providers'],
  ...['model', 'models', 'upstream_model', 'forced_model', 'preferred_models', 'context_window_models'],
])
/** Members that are somebody else's: their members are called as they like. */
const OPAQUE: ReadonlySet<string> = new Set(['parameters', 'options'])

export interface NameFlaw {
  readonly path: readonly (string | number)[]
  /** What stands there must not be so: `must not ...`. */
  readonly rule: string
}

/** The first name in a value that is refused, or null. */
export const unsoundName = (value: unknown, isName = false): NameFlaw | null => {
  if (typeof value === 'string') {
    const rule = isName ? nameError(value) : null
    return rule === null ? null : { path: [], rule }
  }
  if (value === null || typeof value !== 'object') return null
  const isList = Array.isArray(value)
  for (const [member, each] of isList ? value.entries() : Object.entries(value)) {
    if (OPAQUE.has(member as string)) continue
    const flaw = unsoundName(each, isList ? isName : NAMES.has(member as string))
    if (flaw !== null) return { ...flaw, path: [member, ...flaw.path] }
  }
  return null
}
