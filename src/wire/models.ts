// The model object of the inference surface (docs/behaviour.md: "Capabilities").
import { type Static, t } from '../lib/schema/schema.ts'

const numberOrNull = (description: string) =>
  t.Union([t.Number(), t.Null()], { description: `${description} Null: unknown.` })

export const ModelObject = t.Object({
  id: t.String(),
  object: t.Literal('model'),
  created: t.Integer({ description: 'Unix seconds.' }),
  owned_by: t.String(),
  gateway_provider: t.String({ description: 'The first provider of it, in the order of priority.' }),
  gateway_context_window: numberOrNull('Tokens.'),
  gateway_input_cost_per_million: numberOrNull('USD per million tokens.'),
  gateway_output_cost_per_million: numberOrNull('USD per million tokens.'),
  gateway_capabilities: t.Array(t.String()),
})
export type ModelObject = Readonly<Omit<Static<typeof ModelObject>, 'gateway_capabilities'>> & {
  readonly gateway_capabilities: readonly string[]
}

export const ModelList = t.Object({ object: t.Literal('list'), data: t.Array(ModelObject) })
export interface ModelList {
  readonly object: 'list'
  readonly data: readonly ModelObject[]
}
