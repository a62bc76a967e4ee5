// Finish reasons of all wires -> those of the client's. An unknown one is passed through as it is.

const FINISH: Readonly<Record<string, string>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  pause_turn: 'stop',
  eos_token: 'stop',
  eos: 'stop',
  max_tokens: 'length',
  model_length: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
  COMPLETE: 'stop',
  STOP_SEQUENCE: 'stop',
  MAX_TOKENS: 'length',
  ERROR_LIMIT: 'length',
  TOOL_CALL: 'tool_calls',
  ERROR_TOXIC: 'content_filter',
  guardrail_intervened: 'content_filter',
  content_filtered: 'content_filter',
}

/** Not an end but a failure: the answer is broken. */
const FAILED = new Set([
  'error',
  'insufficient_system_resource',
  'malformed_function_call',
  'malformed_model_output',
  'malformed_tool_use',
  'timeout',
])

export const finishReasonOf = (reason: string): string => (Object.hasOwn(FINISH, reason) ? FINISH[reason]! : reason)
export const isFailedFinish = (reason: string): boolean => FAILED.has(reason.toLowerCase())
