// The signatures of upstream failures: machine-readable fields, and sentences as vendors word them. Vendors that speak
// the OpenAI wire answer 400, 403 or 429 for what the gateway tells apart by its code.
import type { ErrorCode } from '../../wire/errors.ts'
import { anyOf } from './any-of.ts'

/** Matched against lower-case text. */
export interface Signature {
  readonly code: ErrorCode
  readonly fields: readonly string[]
  readonly message: RegExp
  /** A message that matches it as well belongs to another signature. */
  readonly except?: RegExp
}

/** A limit of tokens in a span of time is a rate, whatever its sentence says about long prompts. */
const TOKENS_IN_TIME = anyOf(
  /\btokens? ?(?:per|\/) ?(?:s|sec|second|min|minute|hour|day|week|month)\b|\b[rt]p[mdh]\b|per[- ]minute/,
  /rate[- _]?limit|too many requests|throttl|please wait|(?:daily|hourly|monthly) (?:token )?(?:limit|quota)/,
)

/** The prompt exceeds the window of the model. */
const OVERFLOW: Signature = {
  code: 'context_length_exceeded',
  // biome-ignore format: one list
  fields: [
    'context_length_exceeded', 'exceed_context_size_error', 'invalid_request_prompt_too_long', // llama.cpp, Mistral
    'model_max_prompt_tokens_exceeded', // GitHub Copilot
    'tokens_limit_reached', // GitHub Models
    'model_context_window_exceeded', '1261', // Z.ai
    'context_window_exceeded', 'contextwindowexceedederror', 'prompt_too_long', // other gateways
  ],
  message: anyOf(
    // OpenAI, LiteLLM, Workers AI, MiniMax, LM Studio, Ollama, SGLang
    /exceed(?:s|ed|ing)? (?:the |this |your )?(?:model(?:'s|’s)? )?(?:max(?:imum)? )?context (?:length|window|size|limit)/,
    /context (?:length|window|size)(?: limit)?(?: has been| was| is)? (?:exceeded|exceeds)|contextwindowexceedederror/,
    /maximum context length is|too large for model with .* context|maximum prompt length is/,
    /when context (?:the )?overflows|is greater than the context length|prompt is too long/,
    /exceeds the maximum number of tokens allowed|exceeds the available context size|input is too long/,
    /too many input tokens|prompt: length|`inputs` tokens \+ `max_new_tokens` must be/,
    /longer than the model's context length|input length exceeds the context length|too many tokens/,
    /current length is .* while limit is|input too long: .*limit is|model's maximum context limit/,
    /input tokens exceed the configured limit/,
    // vLLM, SGLang, DeepInfra
    /(?:exceeds?|longer than) (?:the )?max(?:imum)? (?:allowed )?(?:input|model|prompt) length/,
    /input length .{0,40}exceeds the maximum allowed length/,
    /reduce the length of (?:the )?(?:input messages|messages|prompt|input|either one)/, // Groq, Cerebras, OpenRouter
    /exceeded (?:the )?model token limit|cannot exceed the total tokens? limit/, // Kimi, watsonx
    /prompt token count of \d+ exceeds the limit of|max size: \d+ tokens/, // GitHub Copilot, GitHub Models
    /prompt too long|prompt 超长|prompt tokens too long|输入长度超|上下文(?:长度)?超/, // Z.ai, Ollama, Qianfan
    /range of input length should be/, // Qwen
    /number of input tokens exceeds? maximum length|tokens in request more than max tokens allowed/, // Nova, OCI
    /input token count is \d+ but (?:the )?model only supports up to/, // Vertex AI
    /\bmust be less than max_seq_len|exceed max message tokens/, // SiliconFlow, Volcengine
    /but the configured context size is|`inputs` must have less than \d+ tokens|max tokens of \d+ exceeded/,
  ),
  except: TOKENS_IN_TIME,
}

/** No money, credit or quota is left. */
const NO_MONEY: Signature = {
  code: 'quota_exceeded',
  // biome-ignore format: one list
  fields: [
    'insufficient_quota', 'credit_balance_exhausted', 'billing_hard_limit_reached', 'billing_not_active',
    'billing_error', 'contract_spend_limit_reached', 'payment_required',
    'exceeded_current_quota_error', // Kimi, as 429
    'insufficient_balance', 'insufficient_balance_error', 'not_enough_balance', // Venice, MiniMax, Novita
    'insufficient_credits', 'insufficient_funds', 'insufficient_user_quota', 'pre_consume_token_quota_failed',
    'arrearage', 'allocationquota.freetieronly', // Qwen
    'accountoverdueerror', 'serviceoverdue', // Volcengine
    'budget_exceeded', '1113', '30001', '30011', // LiteLLM, Z.ai, SiliconFlow
  ],
  message: anyOf(
    /exceeded your current quota|insufficient (?:account )?(?:balance|credits?|funds)|used all available credits/,
    /(?:credit )?balance is (?:too low|insufficient|not enough|exhausted|depleted)|not enough (?:balance|credits?)/,
    /spend(?:ing)? (?:limit|cap)|spend alert threshold|reached your specified .*usage limits?/,
    /prepay(?:ment|id) credits? (?:are|is) depleted|exceeded your monthly included credits/,
    /overdue (?:balance|payment|invoice)|account (?:is |has an )?overdue|past[- ]due|in arrears|failure to pay/,
    /make sure your account is in good standing|free tier of the model has been exhausted/,
    /余额不足|余额已用尽|欠费/,
  ),
}

/** In this order: a request that is too long may also be reported as a quota or a bad request. */
export const SIGNATURES: readonly Signature[] = [
  OVERFLOW,
  {
    code: 'content_filtered',
    fields: ['content_filter', 'content_policy_violation', 'responsibleaipolicyviolation'],
    message: anyOf(
      /rejected as a result of our safety system|filtered due to the prompt triggering/,
      /output blocked by content filtering policy|violating our usage policy|violates usage guidelines/,
      /response was blocked/,
    ),
  },
  NO_MONEY,
  {
    code: 'rate_limited',
    fields: [
      'rate_limit_exceeded',
      'rate_limit_error',
      'rate_limit_reached_error',
      'throttlingexception',
      'toomanyrequestsexception',
      'servicequotaexceededexception',
    ],
    message: anyOf(
      /service tier capacity exceeded|request was throttled|rate limit (?:reached|exceeded)/,
      /\btokens? ?(?:per|\/) ?(?:min|minute|hour|day)\b|\btp[md]\b/,
    ),
  },
  {
    code: 'not_found',
    fields: ['model_not_found', 'not_found_error', 'deploymentnotfound', 'resourcenotfoundexception'],
    message: /\bmodel\b.* does not exist|provided model identifier is invalid/,
  },
  {
    code: 'authentication_error',
    fields: [
      'invalid_api_key',
      'authentication_error',
      'unrecognizedclientexception',
      'invalidsignatureexception',
      'expiredtokenexception',
      'api_key_invalid',
    ],
    message: /security token included in the request is (?:invalid|expired)|incorrect api key provided/,
  },
]

/** Of a 403 that no signature matches. */
export const ABOUT_MONEY = /\b(?:credits?|billing|quota|spend|balance|recharge|top[- ]up|overdue|unpaid)\b/
/** Of a 413 that no signature matches. */
export const aboutPromptLength = (message: string): boolean => /\b(?:tokens?|context)\b/.test(message)
/** The message names a rate of tokens: such a 413 is a limit of the account. */
export const aboutRate = (message: string): boolean => TOKENS_IN_TIME.test(message)
