// A row of the table of upstreams that speak the OpenAI wire, and the helpers that rows are written with.

import { HEADER_NAME, HEADER_TEXT, type Options } from '../options.ts'
import { ALL_CAPABILITIES, type Capability, type ProviderKind, type Target } from '../port.ts'
import type { Json } from '../shared/read-json.ts'
import { joinUrl } from '../shared/target-url.ts'
import type { Dialect } from './answer.ts'
import { type ListingQuirks, lists } from './listing.ts'
import type { RequestQuirks } from './request.ts'

/** A row of the table. Members that it leaves out are as in OpenAI's API. */
export interface OpenAiRow {
  readonly kind: string
  /** Names in other gateways, or in its own documentation. */
  readonly aliases?: readonly string[]
  readonly needsCredential: boolean
  readonly capabilities: readonly Capability[]
  /** As in `ProviderKind`: only where the vendor documents it. */
  readonly stopsBillingWhenLeft?: ProviderKind['stopsBillingWhenLeft']
  readonly defaultBaseUrl: string | null
  readonly usualEnv: string | null
  readonly usualBaseUrlEnv?: string
  /** Its own options of a provider, beside `forward` and `drop`. */
  readonly options?: Options
  readonly request?: RequestQuirks
  readonly answer?: Dialect
  /**
   * The status that a failure is read as, when it differs from the one it came with. `error` is the `error` object of
   * its body, or the body.
   */
  readonly readAs?: (status: number, error: Json, headers: Headers) => number
  /** Null: it has no list of its models. */
  readonly listing?: ListingQuirks | null
}

export const allBut = (...names: readonly Capability[]): readonly Capability[] =>
  ALL_CAPABILITIES.filter((capability) => !names.includes(capability))

/** All of them except those that the listing denies. */
export const allExceptDenied = (listed: Partial<Record<Capability, boolean | undefined>>): readonly Capability[] =>
  ALL_CAPABILITIES.filter((capability) => listed[capability] !== false)

export const header = (target: Target, option: string, name: string): Readonly<Record<string, string>> => {
  const value = target.options[option]
  return typeof value === 'string' && HEADER_NAME.test(value) ? { [name]: value } : {}
}

/** Header values that are sentences or addresses rather than names. */
export const textHeader = (target: Target, option: string, name: string): Readonly<Record<string, string>> => {
  const value = target.options[option]
  return typeof value === 'string' && HEADER_TEXT.test(value) ? { [name]: value } : {}
}

/** Beside `/v1` rather than below it. */
export const beside = (path: string) => (baseUrl: string) =>
  joinUrl(joinUrl(baseUrl, '').replace(/\/v1(?=$|\?)/, ''), path)

/** Fields that only local runtimes and compatible servers accept. */
export const EXTENDED = ['top_k', 'min_p', 'repetition_penalty'] as const
/** Whether a model of these modalities accepts images. */
export const vision = (modalities: unknown): boolean => lists(modalities, 'image')
