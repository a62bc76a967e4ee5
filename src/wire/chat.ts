// The frames and members of a chat completion that the gateway adds: the upstream's own bytes are never rebuilt.
import type { GatewayError } from './errors.ts'

export const DONE_FRAME = 'data: [DONE]\n\n'

/**
 * A failure after the stream began. `gatewayJson` is the block that every failure has. The data comes first: clients
 * that stop at the first line that they do not know still read it.
 */
export const errorFrame = ({ message, type, param, code }: GatewayError, gatewayJson: string): string =>
  `data: {"error":${JSON.stringify({ message, type, param, code })},"gateway":${gatewayJson}}\nevent: error\n\n`

/** The fields that all chunks of a stream share. */
export interface StreamHead {
  readonly id: string
  readonly created: number
  readonly model: string
}

/** A chunk that ends these choices. */
export const finishChunk = (
  { id, created, model }: StreamHead,
  finishReason: string,
  choices: readonly number[],
): string =>
  JSON.stringify({
    id,
    object: 'chat.completion.chunk',
    created,
    model,
    choices: choices.map((index) => ({ index, delta: {}, finish_reason: finishReason })),
  })

/** The terminal usage chunk, when the provider sent none. */
export const usageChunk = ({ id, created, model }: StreamHead, usage: Readonly<Record<string, unknown>>): string =>
  JSON.stringify({ id, object: 'chat.completion.chunk', created, model, choices: [], usage })

/** Usage as clients read it. */
export const usageOf = (promptTokens: number, completionTokens: number) => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
})

/** `gateway.completion`: an answer that was cut short (docs/behaviour.md: "The gateway block"). */
export interface CompletionFacts {
  /** Null: the answer has none, since it broke off. */
  readonly finishReason: string | null
  /** Null: neither its length nor a deadline ended it. The error beside it holds the cause. */
  readonly reason: 'max_tokens' | 'timeout' | null
  /** The limit that the client sent; null without one. */
  readonly requestedTokens: number | null
  readonly promptTokens: number | null
  readonly completionTokens: number | null
  readonly budgetMs: number
}

/** As a member of the block: `,"completion":{...}`. */
export const completionJson = (facts: CompletionFacts): string => {
  const { finishReason, reason, requestedTokens, promptTokens, completionTokens, budgetMs } = facts
  const ceiling = requestedTokens === null ? {} : { requested_tokens: requestedTokens, applied_tokens: requestedTokens }
  return `,"completion":${JSON.stringify({
    finish_reason: finishReason,
    truncated: true,
    reason,
    ...ceiling,
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    budget_ms: budgetMs,
  })}`
}

/** How a run of tools ended, as seen by the gateway. */
export type StopReason = 'completed' | 'timeout' | 'error'

/** `gateway.tool_run` where the client runs the tools, as a member of the block (docs/behaviour.md: "Tools"). */
export const toolRunJson = (toolNames: readonly string[], stopReason: StopReason, latencyMs: number): string =>
  `,"tool_run":${JSON.stringify({
    mode: 'manual',
    status: 'client_executed',
    run_id: null,
    steps: 1,
    calls: toolNames.length,
    executed: 0,
    stop_reason: stopReason,
    tools: [...new Set(toolNames)],
    latency_ms: latencyMs,
  })}`
