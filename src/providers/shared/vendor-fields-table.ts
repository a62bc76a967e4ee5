// Vendor fields: what an upstream reads beside the client's wire, and what the gateway does about it, kind by kind:
// the one table (docs/decisions/0026). A name is listed only for a kind whose upstream reads it. Every other field of
// a client passes unexamined.

/** What the number in a vendor field adds to the upper bound of an answer. */
export type Counted =
  /** The limit of one answer: the larger of it and the client's counts. */
  | 'limit'
  /** Tokens of thinking: counted beyond the limit. */
  | 'thinking'
  /** Answers that are generated, whether they are shown or not. */
  | 'answers'
  /** A text whose tokens are billed as output, whatever the limit. */
  | 'text'

/** What may be set in the client's wire only, since it cannot be counted elsewhere. */
export type Withheld = 'model' | 'tools' | 'tool_choice' | 'messages'

/**
 * Names are paths; case and underscores do not count, `*.x` is `x` at any depth. A counted field is forwarded as it
 * was sent; a kept one is not sent on, and `gateway.shaping` reports it.
 */
export interface VendorField {
  readonly names: readonly string[]
  readonly counts?: Counted
  readonly withholds?: Withheld
  /** The client's own field takes precedence where both are sent: this one then only repeats it. */
  readonly yields?: true
  readonly why: string
}

const counts = (as: Counted, why: string, ...names: string[]): VendorField => ({ names, counts: as, why })
const yielding = (as: Counted, why: string, ...names: string[]): VendorField => ({
  ...counts(as, why, ...names),
  yields: true,
})
const withholds = (what: Withheld, why: string, ...names: string[]): VendorField => ({ names, withholds: what, why })

const within = (container: string, names: readonly string[]): string[] => names.map((name) => `${container}.${name}`)

// biome-ignore format: one list
const LIMITS = [
  'max_output_tokens', 'max_new_tokens', 'max_token_count', 'max_tokens_to_sample', 'max_gen_len', 'max_length',
  'n_predict', 'num_predict',
]
const ANSWERS = ['best_of', 'candidate_count', 'n_cmpl', 'num_generations', 'num_results', 'num_return_sequences']
// biome-ignore format: one list
const THINKING = [
  'thinking_budget', 'thinking_budget_tokens', 'thinking_token_budget', 'budget_tokens', 'token_budget',
  'reasoning_budget', 'reasoning.max_tokens',
]
/** In a container, the client's own names are those of upstreams too. */
const INNER_LIMITS = [...LIMITS, 'max_tokens', 'max_completion_tokens']
const INNER_ANSWERS = [...ANSWERS, 'n']
/** Containers in which clients put fields that their libraries lack. */
const inExtras = (names: readonly string[]): string[] =>
  ['extra_body', 'generation_config', 'options'].flatMap((container) => within(`${container}.*`, names))
const DECLARES = ['tools', 'functions', 'mcp_servers', 'function_declarations', 'tool_config']

const PREDICTED = counts('text', 'what it rejects of a prediction is billed as output, beyond the limit', 'prediction')

/** Vendor fields by kind. A kind without rows reads only the client's wire, or refuses unknown fields. */
export const VENDOR_FIELDS: Readonly<Record<string, readonly VendorField[]>> = {
  openai: [PREDICTED],
  azure_openai: [PREDICTED],
  mistral: [PREDICTED],
  cerebras: [PREDICTED],
  openai_compatible: [
    counts(
      'limit',
      'what answers is not known; every name of a limit may be read',
      ...LIMITS,
      ...inExtras(INNER_LIMITS),
    ),
    counts('answers', 'likewise any number of answers', ...ANSWERS, ...inExtras(INNER_ANSWERS)),
    counts('thinking', 'likewise any budget for thinking', ...THINKING, ...inExtras(THINKING)),
    PREDICTED,
    withholds(
      'model',
      'another gateway may answer, which would call another model than the one that was chosen, allowed and priced',
      ...['models', 'fallbacks', ...within('extra_body', ['model', 'models', 'fallbacks'])],
    ),
    withholds(
      'tools',
      'they would be declared past the check of declarations and the switch for tools',
      ...['mcp_servers', 'function_declarations', ...within('extra_body', DECLARES)],
    ),
    withholds('messages', 'they would stand in for those that were checked', 'extra_body.messages'),
  ],
  vllm: [counts('answers', 'older versions generate so many and show the best', 'best_of')],
  llamacpp: [
    counts('limit', 'it wins over max_tokens there, and -1 is none', 'n_predict'),
    counts('answers', 'another name of n', 'n_cmpl'),
  ],
  openrouter: [
    counts(
      'thinking',
      'a budget of tokens for reasoning, which some models take beside the limit',
      'reasoning.max_tokens',
    ),
    withholds(
      'model',
      'each is called in turn, priced by itself, whether a policy allows it or not',
      'models',
      'fallbacks',
    ),
  ],
  groq: [withholds('model', 'compound systems are billed by the models that they call', 'compound_custom.models')],
  anthropic: [
    withholds('model', 'called when the chosen one refuses, whether a policy allows it or not', 'fallbacks'),
    withholds('tools', 'tools of servers that the client names, called from there', 'mcp_servers'),
  ],
  gemini: [
    yielding('limit', 'the limit, where the client sets none in its own wire', '*.max_output_tokens'),
    yielding('answers', 'n in its words', '*.candidate_count'),
    counts('thinking', 'its documents count it beside the limit, its models within', '*.thinking_budget'),
    withholds('model', 'the model stands in the address', 'extra_body.google.model'),
    withholds('messages', 'written from the messages', 'contents', 'extra_body.google.contents'),
    withholds(
      'tools',
      'declarations are checked in the client’s wire',
      ...['function_declarations', ...within('*.google', ['tools', 'function_declarations'])],
      ...within('*.tool_config', ['tools', 'function_declarations']),
    ),
    withholds('tool_choice', 'likewise', '*.function_calling_config'),
  ],
  bedrock: [
    yielding('limit', 'the limit, where the client sets none in its own wire', 'inferenceConfig.max_tokens'),
    counts(
      'limit',
      'handed on to the model, which may read it',
      ...within('additionalModelRequestFields.*', INNER_LIMITS),
    ),
    counts('answers', 'likewise', ...within('additionalModelRequestFields.*', INNER_ANSWERS)),
    counts('thinking', 'likewise', ...within('additionalModelRequestFields.*', THINKING)),
    withholds(
      'tools',
      'declarations are checked in the client’s wire',
      ...['toolConfig', ...within('additionalModelRequestFields', DECLARES)],
    ),
    withholds('tool_choice', 'likewise', 'additionalModelRequestFields.tool_choice'),
    withholds('model', 'called when the chosen one refuses', 'additionalModelRequestFields.fallbacks'),
    withholds('messages', 'they would stand in for those that were checked', 'additionalModelRequestFields.messages'),
  ],
  cohere: [counts('thinking', 'a budget of its own, beside max_tokens', 'thinking.token_budget')],
  ollama: [
    yielding('limit', 'the limit, where the client sets none in its own wire; -1 is none', 'options.num_predict'),
  ],
}

/**
 * Kinds whose upstream is known to read names exactly. Others may be written in a language whose JSON ignores case
 * (Go's does), to which `Model` is the model that was authorised: such a spelling is not sent on. OpenAI itself
 * refuses it, but its kind is also set for other servers that speak its wire.
 */
export const EXACT_KINDS: ReadonlySet<string> = new Set([
  ...['azure_openai', 'anthropic', 'gemini', 'bedrock', 'mistral', 'vllm', 'llamacpp', 'tgi', 'lmstudio'],
  ...['deepseek', 'xai', 'sandbox'],
])
