// What the models behind Converse accept, by their names: `eu.anthropic.claude-sonnet-4-5-20250929-v1:0`, an ARN with
// that at its end, ... An application inference profile hides its model; there the provider's `options.model_family`
// and `options.structured_output` decide.
import type { Target } from '../port.ts'
import { anyOf } from '../shared/any-of.ts'

export type Family = 'claude' | 'nova' | 'openai' | 'mistral' | 'other'

const FAMILIES: readonly (readonly [Family, RegExp])[] = [
  ['claude', /claude/],
  ['nova', /amazon\.nova/],
  ['openai', /openai\./],
  ['mistral', /mistral\./],
]

export const FAMILY_NAMES: readonly Family[] = [...FAMILIES.map(([family]) => family), 'other']

const HIDDEN = /application-inference-profile|provisioned-model/

/** The family of the target's model. */
export const familyOf = ({ upstreamModel, options }: Target): Family => {
  const named = FAMILIES.find(([, names]) => names.test(upstreamModel))
  if (named !== undefined) return named[0]
  const configured = FAMILIES.find(([family]) => family === options.model_family)
  return configured !== undefined && HIDDEN.test(upstreamModel) ? configured[0] : 'other'
}

/** Where the model takes markers of its prompt cache; a profile that hides its model may take them anywhere. */
export const cachesPrompts = (target: Target, family: Family): 'everywhere' | 'but tools' | 'nowhere' => {
  if (family === 'claude' || (family === 'other' && HIDDEN.test(target.upstreamModel))) return 'everywhere'
  return family === 'nova' ? 'but tools' : 'nowhere'
}

// Claude 4.5 and 4.6 alone: Bedrock's copy of the schema lists none before and none after (September 2026).
const NATIVE_FORMAT = anyOf(
  /claude-(?:opus|sonnet|haiku)-4-[56]|openai\.|qwen\.|deepseek\.v|google\.gemma|nvidia\.|minimax\./,
  /moonshot(?:ai)?\.|zai\.|mistral\.(?:mistral-large-3|ministral|magistral|voxtral|devstral)/,
)

/**
 * Whether the model accepts a JSON schema for its answer and `strict` tools; for others a tool carries the JSON
 * answer.
 */
export const takesSchemas = ({ upstreamModel, options }: Target): boolean =>
  options.structured_output === 'native' || (options.structured_output !== 'tool' && NATIVE_FORMAT.test(upstreamModel))

/** Models that always think refuse a forced tool. */
const NEVER_FORCED = /claude-(?:opus-5-[5-9]|fable-5-[1-9]|(?:opus|sonnet|haiku|fable|mythos)-[6-9])/
export const refusesForcedTools = ({ upstreamModel }: Target): boolean => NEVER_FORCED.test(upstreamModel)

/** Nova before 2 does not reason. */
export const novaReasons = ({ upstreamModel }: Target): boolean => /nova-(?:[2-9]|premier-v[2-9])/.test(upstreamModel)
