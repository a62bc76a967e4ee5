// Fields of a request that bring content into the prompt which is not in its body: content that the vendor stores,
// searches or fetches. `media-bounds.ts` does the same for parts of messages. Its size is not known: a whole prompt, as
// large as the model takes, is reserved.
import { CLIENT_FIELDS, isContainer, plainName } from '../../providers/shared/vendor-fields.ts'
import { isObject } from '../../wire/json.ts'

type Body = Readonly<Record<string, unknown>>

/**
 * `kinds`: kinds of upstream that read such a field, so that it is sent to them. A compatible upstream may be any
 * vendor, or a gateway in front of one.
 */
interface OutsideRow {
  readonly names: readonly string[]
  readonly kinds: readonly string[]
  readonly brings: string
  /** Whether an object under the name refers to content. Without it, every object that is not empty does. */
  readonly isOn?: (value: Body) => boolean
}

const COMPATIBLE = 'openai_compatible'

const ROWS: readonly OutsideRow[] = [
  { names: ['cached_content'], kinds: ['gemini'], brings: 'a prompt that stands in the cache of the vendor' },
  { names: ['data_sources'], kinds: ['azure_openai'], brings: 'documents of an index' },
  {
    names: ['web_search_options'],
    kinds: ['openai', 'azure_openai', 'openrouter', 'perplexity', 'groq', 'xai'],
    brings: 'pages that a search finds',
    // Its presence turns the search on.
    isOn: () => true,
  },
  {
    names: ['search_parameters', 'search_settings'],
    kinds: ['xai', 'groq'],
    brings: 'the same',
    isOn: ({ mode }) => mode !== 'off',
  },
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
      ...['attachments', 'knowledge', 'retrieval'],
    ],
    kinds: [],
    brings: 'words that other gateways have for it',
  },
  {
    names: ['enable_search', 'web_search'],
    kinds: [],
    brings: 'likewise for a search',
    isOn: ({ enable }) => enable !== false,
  },
]

const BY_NAME: ReadonlyMap<string, OutsideRow> = new Map(
  ROWS.flatMap((row) => row.names.map((name) => [plainName(name), row] as const)),
)
/**
 * Kinds that forward the vendor's own tools (`{"type": "web_search"}`); all others take functions only, and refuse the
 * rest.
 */
const NOT_FUNCTIONS: ReadonlySet<unknown> = new Set(['function', 'custom'])
/** For every kind that gets it. */
const EVERY = '*'
/** Models that search by themselves, by their names at every vendor. */
const SEARCHES = /(?:^|[/:.])compound|deep-research|search-preview|:online$/i

const hasMembers = (value: Body): boolean => Object.keys(value).length > 0

/** Libraries send unset fields as an empty text or list. */
const isSent = (value: unknown, { isOn = hasMembers }: OutsideRow): boolean => {
  if (isObject(value)) return isOn(value)
  if (Array.isArray(value)) return value.length > 0
  return value !== undefined && value !== null && value !== false && value !== ''
}

/** Null: none, as for nearly every body, which saves a set. */
const collect = (body: Body, into: Set<string> | null): Set<string> | null => {
  let kinds = into
  for (const name in body) {
    if (CLIENT_FIELDS.has(name)) continue
    const value = body[name]
    const row = BY_NAME.get(plainName(name))
    if (row !== undefined && isSent(value, row)) {
      kinds ??= new Set()
      for (const kind of [COMPATIBLE, ...row.kinds]) kinds.add(kind)
    }
    if (isContainer(name) && isObject(value)) kinds = collect(value, kinds)
  }
  return kinds
}

/** The kinds of upstream for which this body refers to content outside of it; null: none. */
export const refersOutside = (body: Body): ReadonlySet<string> | null => {
  const kinds = collect(body, null)
  const { tools } = body
  const isAny = Array.isArray(tools) && tools.some((tool) => isObject(tool) && !NOT_FUNCTIONS.has(tool.type))
  return isAny ? (kinds ?? new Set<string>()).add(EVERY) : kinds
}

/** Whether the prompt may hold more than the body, for a model of this kind. */
export const isUnsizedAt = (outside: ReadonlySet<string> | null, kind: string, model: string): boolean =>
  SEARCHES.test(model) || (outside !== null && (outside.has(kind) || outside.has(EVERY)))
