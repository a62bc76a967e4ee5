// Which members of requests and settings are names, and which names are refused. One rule for both; names in older logs
// stay valid.
import { nameError } from '../../lib/text/storable-text.ts'

/**
 * Members that hold names, or lists of them, at any depth. A reason, a description, a prompt or a secret may have
 * lines.
 */
const NAMES: ReadonlySet<string> = new Set([
  ...['name', 'slug', 'aliases', 'plan', 'tenant', 'routing_policy', 'target', 'scopes', 'id', 'regions', 'region'],
  ...['provider', 'providers', 'only', 'order', 'ignore', 'preferred_providers'],
  ...['model', 'models', 'upstream_model', 'forced_model', 'preferred_models', 'context_window_models'],
])
/** Members whose contents belong to another format: the names within them are free. */
const OPAQUE: ReadonlySet<string> = new Set(['parameters', 'options'])

export interface NameProblem {
  readonly path: readonly (string | number)[]
  /** The violated rule: `must not ...`. */
  readonly rule: string
}

/** The first refused name in a value, or null. */
export const unsoundName = (value: unknown, isName = false): NameProblem | null => {
  if (typeof value === 'string') {
    const rule = isName ? nameError(value) : null
    return rule === null ? null : { path: [], rule }
  }
  if (value === null || typeof value !== 'object') return null
  const isList = Array.isArray(value)
  for (const [member, each] of isList ? value.entries() : Object.entries(value)) {
    if (OPAQUE.has(member as string)) continue
    const problem = unsoundName(each, isList ? isName : NAMES.has(member as string))
    if (problem !== null) return { ...problem, path: [member, ...problem.path] }
  }
  return null
}
