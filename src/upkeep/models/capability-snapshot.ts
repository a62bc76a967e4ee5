// The catalogue of what models can do: a dated, trimmed copy of LiteLLM's table (MIT, licence beside it), so that no
// later version of it changes a model. `infra/capabilities.ts` writes it again. Decision 10 defines how a name is
// matched and what a missing value means.
import { ownFile } from '../../lib/own-files.ts'
import type { Capability } from '../../providers/port.ts'

/** The capabilities that a row states, in the order of its letters. */
export const STATED = ['tools', 'parallel_tool', 'json_schema', 'vision'] as const satisfies readonly Capability[]

/**
 * Name, prompt tokens, output tokens (0: not stated), and a letter for each of `STATED`: `y`, `n`, or `-` where nothing
 * is stated.
 */
export type CapabilityRow = readonly [name: string, maxInputTokens: number, maxOutputTokens: number, says: string]

export interface CapabilitySnapshot {
  readonly source: string
  readonly version: string
  readonly licence: string
  /** The day on which it was written. */
  readonly taken: string
  /** Chat models by provider, by name in rising order. */
  readonly providers: Readonly<Record<string, readonly CapabilityRow[]>>
}

/** What the catalogue states of a model. Null: not stated. */
export interface CatalogueFacts {
  /** Tokens that a prompt may have: some windows are larger by the tokens of the answer. */
  readonly maxInputTokens: number | null
  readonly maxOutputTokens: number | null
  /** Only what it states as yes or no. */
  readonly says: Readonly<Partial<Record<Capability, boolean>>>
}

/**
 * Our kind -> the snapshot's provider. The models of a self-hosted server are known to that server alone; OpenRouter
 * lists everything itself.
 */
const PROVIDERS: Readonly<Record<string, string>> = {
  openai: 'openai',
  azure_openai: 'azure',
  anthropic: 'anthropic',
  gemini: 'gemini',
  bedrock: 'bedrock',
  cohere: 'cohere_chat',
  mistral: 'mistral',
  groq: 'groq',
  together: 'together_ai',
  fireworks: 'fireworks_ai',
  deepseek: 'deepseek',
  xai: 'xai',
  perplexity: 'perplexity',
  cerebras: 'cerebras',
}

/** Bedrock's inference profiles: a geography before the model's own name. */
const GEOGRAPHY = /^(?:us-gov|us|eu|apac|global|jp|au|ca|in)\./
const DATE = /-20\d\d(-?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])(?=$|-v\d)/

/** The name in lower case, without the geography that it is served in. */
export const placeless = (provider: string, name: string): string =>
  provider === 'bedrock' ? name.toLowerCase().replace(GEOGRAPHY, '') : name.toLowerCase()

/** The name like `placeless`, without the date of its version. */
export const bareName = (provider: string, name: string): string => placeless(provider, name).replace(DATE, '')

/** Rows by name, by lower-case name, and by bare name. */
interface ProviderIndex {
  readonly exact: ReadonlyMap<string, CapabilityRow>
  readonly folded: ReadonlyMap<string, readonly CapabilityRow[]>
  readonly bare: ReadonlyMap<string, readonly CapabilityRow[]>
}

export type CapabilityCatalogue = ReadonlyMap<string, ProviderIndex>

/** Makes a snapshot ready for look-ups. */
export const indexed = ({ providers }: CapabilitySnapshot): CapabilityCatalogue =>
  new Map(
    Object.entries(providers).map(([provider, rows]) => [
      provider,
      {
        exact: new Map(rows.map((row) => [row[0], row])),
        folded: Map.groupBy(rows, ([name]) => name.toLowerCase()),
        bare: Map.groupBy(rows, ([name]) => bareName(provider, name)),
      },
    ]),
  )

// Per process, since the file belongs to the program and never changes while it runs.
let loaded: WeakRef<Promise<CapabilityCatalogue>> | null = null

/** Read at the first use, once for all concurrent callers; released when no caller holds it any more. */
export const capabilityCatalogue = (): Promise<CapabilityCatalogue> => {
  const known = loaded?.deref()
  if (known !== undefined) return known
  const loading = (
    Bun.file(ownFile('src/upkeep/models/capabilities/snapshot.json')).json() as Promise<CapabilitySnapshot>
  ).then(indexed)
  loaded = new WeakRef(loading)
  return loading
}

/**
 * The facts of a model at a provider of this kind; null: the catalogue does not have it, or has several that match.
 * Pure.
 */
export const capabilitiesOf = (catalogue: CapabilityCatalogue, kind: string, model: string): CatalogueFacts | null => {
  const provider = PROVIDERS[kind]
  const rows = provider === undefined ? undefined : catalogue.get(provider)
  if (provider === undefined || rows === undefined) return null
  const row = rows.exact.get(model) ?? foldedRow(rows, provider, model)
  return row === null ? null : factsOf(row)
}

/**
 * The rows of the first name that is found, from the most exact to the barest. Where it stands for several models with
 * different facts, the match is ambiguous: null.
 */
const foldedRow = ({ folded, bare }: ProviderIndex, provider: string, model: string): CapabilityRow | null => {
  const name = bareName(provider, model)
  const found =
    folded.get(model.toLowerCase()) ?? folded.get(placeless(provider, model)) ?? folded.get(name) ?? bare.get(name)
  return found === undefined ? null : agreed(found)
}

const agreed = ([first, ...others]: readonly CapabilityRow[]): CapabilityRow | null => {
  const same = others.every((row) => row[1] === first![1] && row[2] === first![2] && row[3] === first![3])
  return same ? first! : null
}

const factsOf = ([, maxInputTokens, maxOutputTokens, letters]: CapabilityRow): CatalogueFacts => {
  const says: Partial<Record<Capability, boolean>> = {}
  for (const [place, name] of STATED.entries()) {
    const letter = letters[place]
    if (letter === 'y' || letter === 'n') says[name] = letter === 'y'
  }
  return { maxInputTokens: maxInputTokens || null, maxOutputTokens: maxOutputTokens || null, says }
}
