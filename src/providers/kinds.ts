// The table of provider kinds. Adding one that speaks the OpenAI wire is a row here and a fixture: CONTRIBUTING, "Adding a provider kind".
import { anthropic } from './anthropic.ts'
import { cohere } from './cohere.ts'
import { type OpenAiRow, openaiShaped } from './openai-shaped.ts'
import { ALL_CAPABILITIES, type ProviderKind, type Target } from './provider.ts'
import { sandbox } from './sandbox.ts'

const header = (target: Target, option: string, name: string): Readonly<Record<string, string>> => {
  const value = target.options[option]
  return typeof value === 'string' && /^[\w.-]{1,128}$/.test(value) ? { [name]: value } : {}
}

/** OpenAI lists everything it serves; these families do not chat. */
const NO_CHAT = /embedding|whisper|tts|dall-e|image|moderation|transcribe|realtime|audio|sora|davinci|babbage|-instruct/

const OPENAI_SHAPED: readonly OpenAiRow[] = [
  {
    kind: 'openai',
    needsCredential: true,
    capabilities: ALL_CAPABILITIES,
    defaultBaseUrl: 'https://api.openai.com/v1',
    usualEnv: 'OPENAI_API_KEY',
    // Unknown keys are refused there, so these are never sent.
    drop: ['top_k', 'min_p', 'repetition_penalty'],
    reasoningFamilies: true,
    chats: (id) => !NO_CHAT.test(id),
    headers: (target) => ({
      ...header(target, 'organization', 'openai-organization'),
      ...header(target, 'project', 'openai-project'),
    }),
  },
  {
    kind: 'openai_compatible',
    needsCredential: false,
    capabilities: ALL_CAPABILITIES,
    defaultBaseUrl: null,
    usualEnv: null,
    // By the specification compatible servers get min_p and repetition_penalty; a provider's `options.forward: ["top_k"]` adds this one.
    drop: ['top_k'],
  },
]

export const KINDS: ReadonlyMap<string, ProviderKind> = new Map(
  [...OPENAI_SHAPED.map(openaiShaped), anthropic, cohere, sandbox].map((kind) => [kind.kind, kind]),
)

/** Names that other gateways and the wires' own documents use -> ours. */
const ALIASES: Readonly<Record<string, string>> = {
  openai_like: 'openai_compatible',
  openai_compat: 'openai_compatible',
  custom_openai: 'openai_compatible',
  claude: 'anthropic',
  cohere_chat: 'cohere',
  cohere_v2: 'cohere',
}

/** The canonical name of a kind: lower case, underscores, aliases resolved. Says nothing about whether it exists. */
export const canonicalKind = (name: string): string => {
  const plain = name.trim().toLowerCase().replaceAll('-', '_')
  return Object.hasOwn(ALIASES, plain) ? ALIASES[plain]! : plain
}

/** The kind of that name, or null. */
export const kindOf = (name: string): ProviderKind | null => KINDS.get(canonicalKind(name)) ?? null
