// Fields of a request that bring content into the prompt which does not stand in its body: what the vendor keeps, searches or fetches. Beside `media-bounds.ts`,
// which does the same for parts of messages. How much it is only the vendor knows: a whole prompt, as large as the model takes one, is reserved.
import { CLIENT_FIELDS, isContainer, plainName } from '../providers/own-words.ts'
import { isObject } from '../wire/json.ts'

type Body = Readonly<Record<string, unknown>>

/** `kinds`: whose upstream reads such a field, so that it gets it. What calls itself compatible may be any of them, or a gateway before them. */
interface OutsideRow {
  readonly names: readonly string[]
  readonly kinds: readonly string[]
  readonly brings: string
}

const COMPATIBLE = 'openai_compatible'

const ROWS: readonly OutsideRow[] = [
  { names: ['cached_content'], kinds: ['gemini'], brings: 'a prompt that stands in the cache of the vendor' },
  { names: ['data_sources'], kinds: ['azure_openai'], brings: 'documents of an index' },
  {
    names: ['web_search_options'],
    kinds: ['openai', 'azure_openai', 'openrouter', 'perplexity', 'groq', 'xai'],
    brings: 'pages that a search finds',
  },
  { names: ['search_parameters', 'search_settings'], kinds: ['xai', 'groq'], brings: 'the same' },
  { names: ['compound_custom'], kinds: ['groq'], brings: 'what the tools of the vendor find' },
  { names: ['plugins', 'preset'], kinds: ['openrouter'], brings: 'pages, files, and a prompt of the account' },
  { names: ['container'], kinds: ['anthropic', 'bedrock'], brings: 'files and skills' },
  { names: ['connectors'], kinds: ['cohere'], brings: 'documents of the account' },
  {
    names: ['chat_template'],
    kinds: ['vllm', 'llamacpp', 'lmstudio'],
    brings: 'whatever the template of the client writes',
  },
  {
    names: [
      ...['previous_response_id', 'conversation', 'thread_id', 'prompt_id', 'vector_store_ids', 'file_ids', 'files'],
      ...['attachments', 'knowledge', 'enable_search', 'web_search', 'retrieval'],
    ],
    kinds: [],
    brings: 'words that other gateways have for it',
  },
]

const KINDS_OF: ReadonlyMap<string, readonly string[]> = new Map(
  ROWS.flatMap(({ names, kinds }) => names.map((name) => [plainName(name), [COMPATIBLE, ...kinds]] as const)),
)
/** Kinds that forward tools of the vendor's own (`{"type": "web_search"}`): all others take functions only, and refuse. */
const NOT_FUNCTIONS: ReadonlySet<unknown> = new Set(['function', 'custom'])
/** For every kind that gets it. */
const EVERY = '*'
/** Models that search by themselves, by their names on every platform. */
const SEARCHES = /(?:^|[/:.])compound|deep-research|search-preview|:online$/i

const isSent = (value: unknown): boolean => value !== undefined && value !== null && value !== false

const collect = (body: Body, into: Set<string>): void => {
  for (const name in body) {
    const value = body[name]
    if (CLIENT_FIELDS.has(name) || !isSent(value)) continue
    for (const kind of KINDS_OF.get(plainName(name)) ?? []) into.add(kind)
    if (isContainer(name) && isObject(value)) collect(value, into)
  }
}

/** The kinds of upstream to which this body refers to content outside of it; null: to none. */
export const refersOutside = (body: Body): ReadonlySet<string> | null => {
  const kinds = new Set<string>()
  collect(body, kinds)
  const { tools } = body
  if (Array.isArray(tools) && tools.some((tool) => isObject(tool) && !NOT_FUNCTIONS.has(tool.type))) kinds.add(EVERY)
  return kinds.size === 0 ? null : kinds
}

/** Whether the prompt may hold more than the body, at a model of this kind. */
export const isUnsizedAt = (outside: ReadonlySet<string> | null, kind: string, model: string): boolean =>
  SEARCHES.test(model) || (outside !== null && (outside.has(kind) || outside.has(EVERY)))
