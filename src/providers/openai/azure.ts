// Azure OpenAI: the OpenAI wire behind deployments. Two forms of address: `/openai/v1`, and
// `/openai/deployments/<name>` with a dated version.

import { oneOf, textOption } from '../options.ts'
import { ALL_CAPABILITIES, type Target } from '../port.ts'
import { textOf } from '../shared/read-json.ts'
import { joinUrl } from '../shared/target-url.ts'
import { EXTENDED, type OpenAiRow } from './row.ts'

const VERSION = /^[\w.-]{1,64}$/
/** An Entra ID token: three parts, the first of them `{"...`. */
const TOKEN = /^eyJ[\w-]*\.[\w-]+\.[\w-]*$/

/** `options.api_version`, unless the address has one itself. */
const withVersion = (url: string, { options }: Target): string => {
  const version = textOf(options.api_version)
  if (version === null || !VERSION.test(version) || /[?&]api-version=/.test(url)) return url
  return `${url}${url.includes('?') ? '&' : '?'}api-version=${version}`
}

/**
 * The path of the address decides: `/openai/v1` (no version needed, the model is the deployment),
 * `/openai/deployments/<name>` and `/models` are used as they are; the bare resource becomes the deployment's address
 * when `options.api_version` is set, else `/openai/v1`.
 */
export const azureUrl = (target: Target): string => {
  const bare = joinUrl(target.baseUrl, '')
  const query = bare.indexOf('?')
  const base = query === -1 ? bare : bare.slice(0, query)
  const chat = '/chat/completions'
  if (/\/(?:v1|models|deployments\/[^/]+)$/.test(base)) return withVersion(joinUrl(bare, chat), target)
  const root = base.endsWith('/openai') ? '' : '/openai'
  const versioned = textOf(target.options.api_version) !== null || /[?&]api-version=/.test(bare)
  if (!versioned) return joinUrl(bare, `${root}/v1${chat}`)
  return withVersion(joinUrl(bare, `${root}/deployments/${encodeURIComponent(target.upstreamModel)}${chat}`), target)
}

/** Versions before this one lack `stream_options`, and answers from a search index (`data_sources`) never accept it. */
const FIRST_WITH_USAGE = '2024-09'
const usageRefused = ({ baseUrl, options }: Target, body: Readonly<Record<string, unknown>>): boolean => {
  if (body.data_sources !== undefined) return true
  const version = /[?&]api-version=(\d{4}-\d\d)/.exec(baseUrl)?.[1] ?? textOf(options.api_version) ?? ''
  return /^\d{4}-\d\d/.test(version) && version < FIRST_WITH_USAGE
}

/** `api-key`; an Entra ID token, or any secret when `options.auth` is `bearer`, is sent as `Authorization`. */
const authorization = ({ secret, options }: Target): Readonly<Record<string, string>> => {
  if (secret === null) return {}
  return options.auth === 'bearer' || (options.auth !== 'api_key' && TOKEN.test(secret))
    ? { authorization: `Bearer ${secret}` }
    : { 'api-key': secret }
}

export const azureRow: OpenAiRow = {
  kind: 'azure_openai',
  aliases: ['azure', 'azureopenai', 'azure_ai', 'azure_openai_service'],
  needsCredential: true,
  capabilities: ALL_CAPABILITIES,
  stopsBillingWhenLeft: true,
  // Each resource has its own.
  defaultBaseUrl: null,
  usualEnv: 'AZURE_OPENAI_API_KEY',
  usualBaseUrlEnv: 'AZURE_OPENAI_ENDPOINT',
  options: {
    api_version: textOption(VERSION, 'an API version such as "2024-10-21"'),
    auth: oneOf('api_key', 'bearer'),
  },
  request: {
    drop: EXTENDED,
    never: EXTENDED,
    reasoningFamilies: true,
    olderFamilies: true,
    takesOwnMessages: true,
    usageRefused,
    url: azureUrl,
    authorization,
  },
  // It lists the base models of the resource; the deployments, which are what can be called, are behind another API
  // and another credential.
  listing: null,
}
