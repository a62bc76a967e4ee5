// Bedrock's listings: foundation models, and the inference profiles by which the newer ones must be called.
import { isObject } from '../../wire/json.ts'
import type { Capability, ListedModel } from '../port.ts'
import { malformed } from '../shared/failure.ts'
import { arrayOf, type Json, objectOf, parseJson, textOf } from '../shared/read-json.ts'

const MOST_LISTED = 10_000
/** Profiles do not list the abilities of their models; these families do not chat. */
const NO_CHAT = /embed|rerank|stability\.|image|canvas|reel|sonic|pegasus|marengo|guardrail/

/** The capabilities that the listing reports, and those that Converse gives every model; null when it reports none. */
const capabilitiesOf = (model: Json): readonly Capability[] | null => {
  if (!Array.isArray(model.inputModalities)) return null
  const capabilities: Capability[] = ['chat', 'tools', 'parallel_tool', 'json_schema']
  if (model.responseStreamingSupported !== false) capabilities.push('streaming')
  if (model.inputModalities.includes('IMAGE')) capabilities.push('vision')
  return capabilities
}

const named = (name: unknown, capabilities: readonly Capability[] | null): ListedModel[] =>
  typeof name === 'string' && name !== '' ? [{ name, contextWindow: null, maxOutputTokens: null, capabilities }] : []

/** Models that can be called by their own name and answer with text. */
const foundationModels = (list: readonly unknown[]): ListedModel[] =>
  list.flatMap((model) => {
    if (!isObject(model)) return []
    const { inferenceTypesSupported: types, outputModalities: outputs } = model
    if (Array.isArray(types) && !types.includes('ON_DEMAND')) return []
    if (Array.isArray(outputs) && !outputs.includes('TEXT')) return []
    return NO_CHAT.test(textOf(model.modelId) ?? '') ? [] : named(model.modelId, capabilitiesOf(model))
  })

const profiles = (list: readonly unknown[]): ListedModel[] =>
  list.flatMap((profile) => {
    const { inferenceProfileId, inferenceProfileArn, type, status, models } = objectOf(profile)
    if (typeof status === 'string' && status !== 'ACTIVE') return []
    const served = arrayOf(models).map((model) => textOf(objectOf(model).modelArn) ?? '')
    if (NO_CHAT.test([inferenceProfileId, ...served].join(' '))) return []
    // An application profile is called by its ARN.
    return named(type === 'APPLICATION' ? inferenceProfileArn : inferenceProfileId, null)
  })

/** Reads either listing. */
export const readListing = (body: string): readonly ListedModel[] => {
  const { modelSummaries, inferenceProfileSummaries } = objectOf(parseJson(body))
  if (Array.isArray(modelSummaries)) return foundationModels(modelSummaries.slice(0, MOST_LISTED))
  if (Array.isArray(inferenceProfileSummaries)) return profiles(inferenceProfileSummaries.slice(0, MOST_LISTED))
  throw malformed('it lists no models')
}
