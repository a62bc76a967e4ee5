// What generations of Claude accept, by their names on every platform: `claude-sonnet-4-5`,
// `us.anthropic.claude-sonnet-4-5-20250929-v1:0`.

/** Models that refuse temperature, top_p and top_k in every request. */
export const NO_SAMPLING = /claude-(?:opus-4[-.][78](?!\d)|(?:opus|sonnet|haiku|fable|mythos)-[5-9](?!\d))/
/** Models that think in every request, and refuse one that switches it off. */
export const ALWAYS_THINKS = /claude-(?:fable|mythos)-/
export const ALWAYS_THINKS_NOTE = 'dropped reasoning_effort: the model always thinks'
/** Models that refuse temperature and top_p in one request: 4.1 to 4.6. The date of 4.0 follows its number at once. */
export const ONE_SAMPLER = /claude-(?:opus|sonnet|haiku)-4[-.][1-6](?!\d)/
export const TEMPERATURE_WINS = 'dropped top_p: the model refuses it beside temperature'
/** Models that take no effort between `high` and `max`: 4.6. */
const NO_XHIGH = /claude-(?:opus|sonnet)-4[-.]6(?!\d)/
/** Models before native JSON output (4.5). */
export const NO_JSON_OUTPUT =
  /claude-(?:v?[23]|instant|(?:opus|sonnet|haiku)-4(?:[-.][01](?!\d))?(?:-\d{8}|@|$|-latest|-v\d))/
/** Models before adaptive thinking (4.6): they take a budget of tokens instead. */
const BUDGET_THINKING =
  /claude-(?:v?[23]|instant|(?:opus|sonnet|haiku)-4(?:[-.][015](?!\d))?(?:-\d{8}|@|$|-latest|-v\d))/
const BUDGETS: Readonly<Record<string, number>> = {
  minimal: 1_024,
  low: 1_024,
  medium: 2_048,
  high: 4_096,
  xhigh: 8_192,
  max: 16_384,
}
/**
 * Claude refuses a request that forces a tool and requests thinking. The tool is indispensable to its client, so
 * thinking is dropped; an effort is kept where the model takes one by itself.
 */
export const FORCED_WITHOUT_THINKING =
  'reasoning_effort without thinking: the model does not think where a tool is forced'
/**
 * Within a loop of tools Claude refuses thinking unless the loop begins with a signed thought, which clients of the
 * OpenAI wire do not send back; nor does it continue an answer while thinking.
 */
export const UNSIGNED_WITHOUT_THINKING =
  'reasoning_effort without thinking: the assistant message before it has no signed thought'
/** `top_p` below it is refused while thinking is on. */
export const LEAST_TOP_P_THINKING = 0.95
/** The least that is taken. */
const SMALLEST_BUDGET = 1_024

/**
 * The form of a reasoning effort: an effort, a budget of tokens (below `maxTokens`), or none when there is no room for
 * a budget.
 */
export const thinkingFor = (
  model: string,
  effort: string,
  maxTokens: number,
): { readonly effort: string } | { readonly budgetTokens: number } | null => {
  if (!BUDGET_THINKING.test(model)) {
    if (effort === 'minimal') return { effort: 'low' }
    return { effort: effort === 'xhigh' && NO_XHIGH.test(model) ? 'high' : effort }
  }
  const budgetTokens = Math.min(BUDGETS[effort] ?? 2_048, maxTokens - 1)
  return budgetTokens < SMALLEST_BUDGET ? null : { budgetTokens }
}
