// The table of provider kinds. A kind with the OpenAI wire is a row in `providers/openai/rows.ts`; a kind with a wire
// of its own is a line here. CONTRIBUTING, "Add a provider kind".
import { anthropic } from './anthropic/kind.ts'
import { bedrock } from './bedrock/kind.ts'
import { cohere } from './cohere/kind.ts'
import { gemini } from './gemini/kind.ts'
import { ollama } from './ollama/kind.ts'
import { OPENAI_ROWS, openaiShaped } from './openai/openai.ts'
import type { ProviderKind } from './port.ts'
import { sandbox } from './sandbox/kind.ts'

export const KINDS: ReadonlyMap<string, ProviderKind> = new Map(
  [...OPENAI_ROWS.map(openaiShaped), anthropic, bedrock, cohere, gemini, ollama, sandbox].map((kind) => [
    kind.kind,
    kind,
  ]),
)

/** Names in other gateways and in the vendors' documentation -> the canonical ones. */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ...OPENAI_ROWS.flatMap(({ kind, aliases = [] }) => aliases.map((alias) => [alias, kind] as const)),
  ['claude', 'anthropic'],
  ['amazon_bedrock', 'bedrock'],
  ['aws', 'bedrock'],
  ['aws_bedrock', 'bedrock'],
  ['bedrock_converse', 'bedrock'],
  ['cohere_chat', 'cohere'],
  ['cohere_v2', 'cohere'],
  ['google', 'gemini'],
  ['googleai', 'gemini'],
  ['google_ai', 'gemini'],
  ['google_ai_studio', 'gemini'],
  ['google_gemini', 'gemini'],
  ['google_genai', 'gemini'],
  ['google_generative_ai', 'gemini'],
  ['ollama_chat', 'ollama'],
])

/** The canonical name of a kind: lower case, underscores, aliases resolved. Does not check that it exists. */
export const canonicalKind = (name: string): string => {
  const plain = name.trim().toLowerCase().replaceAll('-', '_')
  return ALIASES.get(plain) ?? plain
}

/** The kind of that name, or null. */
export const kindOf = (name: string): ProviderKind | null => KINDS.get(canonicalKind(name)) ?? null
