// The tools that the gateway can execute by itself: what a model reads of each, and how each is registered. The code
// that runs them is in `src/inference/run/builtin/`.

/** A tool of the kind `builtin` before an operator has changed anything. */
export interface BuiltinTool {
  readonly description: string
  /** Whether it runs by itself: only `safe` tools do. */
  readonly safety: 'safe' | 'sensitive'
  readonly enabled: boolean
  /** JSON Schema 2020-12 of its arguments. A handler takes nothing beside them. */
  readonly parameters: Readonly<Record<string, unknown>>
}

const closed = (properties: Record<string, unknown>, required: string[]): BuiltinTool['parameters'] => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
})

export const BUILTIN_TOOLS = {
  current_time: {
    description:
      'The current date and time, in UTC and in a time zone. Use it for questions about today, now, or how long ' +
      'something is away.',
    safety: 'safe',
    enabled: true,
    parameters: closed(
      {
        timezone: {
          type: 'string',
          maxLength: 64,
          description: 'Name of a time zone in the IANA database, such as "Europe/Berlin". Left out: UTC.',
        },
      },
      [],
    ),
  },
  calculator: {
    description:
      'Computes an arithmetic expression exactly. Takes decimal numbers, + - * / % ^ and parentheses; % is the ' +
      'remainder, ^ a power with a whole exponent. No names, no functions, no thousands separators.',
    safety: 'safe',
    enabled: true,
    parameters: closed(
      {
        expression: { type: 'string', minLength: 1, maxLength: 500, description: 'For example "(0.1 + 0.2) * 3".' },
      },
      ['expression'],
    ),
  },
  json_query: {
    description: 'Selects and reshapes parts of a JSON document with a JMESPath expression.',
    safety: 'safe',
    enabled: true,
    parameters: closed(
      {
        data: { description: 'The document: a JSON value of every kind.' },
        expression: {
          type: 'string',
          minLength: 1,
          maxLength: 1_000,
          description: 'A JMESPath expression, for example "people[?age > `30`].name".',
        },
      },
      ['data', 'expression'],
    ),
  },
  text_search: {
    description: 'Ranks the given texts by how well they match a query, best first, with the passage that matches.',
    safety: 'safe',
    enabled: true,
    parameters: closed(
      {
        query: { type: 'string', minLength: 1, maxLength: 1_000, description: 'Words to look for.' },
        texts: {
          type: 'array',
          items: { type: 'string' },
          minItems: 1,
          maxItems: 1_000,
          description: 'The texts to search.',
        },
        limit: { type: 'integer', minimum: 1, maximum: 100, description: 'Most results. Left out: 10.' },
      },
      ['query', 'texts'],
    ),
  },
  http_get: {
    description: 'Reads a text document at an https or http address of a host that the operator allows.',
    safety: 'sensitive',
    enabled: false,
    parameters: closed(
      { url: { type: 'string', minLength: 1, maxLength: 2_048, description: 'The address, with its scheme.' } },
      ['url'],
    ),
  },
} as const satisfies Readonly<Record<string, BuiltinTool>>
