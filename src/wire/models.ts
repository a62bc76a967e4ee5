// The model object of the inference surface (specification 2.5).

export interface ModelObject {
  readonly id: string
  readonly object: 'model'
  /** Unix seconds. */
  readonly created: number
  readonly owned_by: string
  readonly gateway_provider: string
  /** Null: unknown. */
  readonly gateway_context_window: number | null
  readonly gateway_input_cost_per_million: number | null
  readonly gateway_output_cost_per_million: number | null
  readonly gateway_capabilities: readonly string[]
}

export interface ModelList {
  readonly object: 'list'
  readonly data: readonly ModelObject[]
}
