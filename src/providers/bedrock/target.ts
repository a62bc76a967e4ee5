// The address and the credentials of Bedrock: region, URL, path, and the headers that authenticate.

import { GatewayError } from '../../wire/errors.ts'
import type { ProviderKind, Target, UpstreamRequest } from '../port.ts'
import { joinUrl } from '../shared/target-url.ts'
import { type AwsCredentials, awsEncode, signAwsRequest } from './aws-signature.ts'

/** The default address; `{region}` is filled in. */
export const BEDROCK_URL = 'https://bedrock-runtime.{region}.amazonaws.com'

/** A URL is stored as it was written, or as a URL parser writes it: its braces are then plain, or encoded. */
const TEMPLATE = /\{region\}|%7Bregion%7D/i
export const REGION = /^[a-z]{2}(?:-[a-z]+)+-\d{1,2}$/
const REGION_IN_HOST = /^(?:.*\.)?bedrock(?:-runtime)?(?:-fips)?\.([a-z]{2}(?:-[a-z]+)+-\d{1,2})\./

const unusable = (message: string): GatewayError => new GatewayError('provider_unavailable', message)

/**
 * The region that the host names, else `options.region`, else the provider's own `region` where it is one of AWS;
 * null: none is set.
 */
const regionOf = ({ baseUrl, options, region }: Pick<Target, 'baseUrl' | 'options' | 'region'>): string | null => {
  const host = URL.parse(baseUrl)?.hostname ?? ''
  const named = REGION_IN_HOST.exec(host)?.[1]
  if (named !== undefined) return named
  for (const candidate of [options.region, region])
    if (typeof candidate === 'string' && REGION.test(candidate)) return candidate
  return null
}

/** Reports a provider without a region when it is written rather than at the first request. */
export const regionProblem: NonNullable<ProviderKind['problem']> = (place) =>
  TEMPLATE.test(place.baseUrl) && regionOf(place) === null
    ? { message: '"options.region" is required for the kind "bedrock", such as "us-east-1"', param: 'options.region' }
    : null

const requiredRegion = (target: Target): string => {
  const region = regionOf(target)
  if (region === null) throw unusable('the provider needs its AWS region in `options.region`, such as "us-east-1"')
  return region
}

/** The base URL with its region, without the `/v1` of other wires. */
const rootOf = (target: Target): string => {
  const root = target.baseUrl.replace(/\/v1\/*$/, '')
  return TEMPLATE.test(root) ? root.replace(/\{region\}|%7Bregion%7D/gi, requiredRegion(target)) : root
}

/**
 * `/model/<id>/<operation>`. Ids have colons, ARNs slashes too: all of them are encoded, once (an operator may have
 * done it already).
 */
export const modelUrl = (target: Target, operation: 'converse' | 'converse-stream'): string => {
  const id = target.upstreamModel.replace(/%3A/gi, ':').replace(/%2F/gi, '/')
  return joinUrl(rootOf(target), `/model/${awsEncode(id)}/${operation}`)
}

/**
 * Another service lists the models; AWS names its host alike. Elsewhere it is `options.control_url`, else the same
 * host.
 */
export const controlUrl = (target: Target, path: string): string => {
  const { control_url: control } = target.options
  const root = typeof control === 'string' && control !== '' ? rootOf({ ...target, baseUrl: control }) : rootOf(target)
  return joinUrl(root.replace(/^(https?:\/\/(?:[^/]*\.)?)bedrock-runtime((?:-fips)?\.)/i, '$1bedrock$2'), path)
}

/** `ACCESS_KEY_ID:SECRET_ACCESS_KEY[:SESSION_TOKEN]`; null: a Bedrock API key, which has no colon. */
const credentialsOf = (secret: string): AwsCredentials | null => {
  if (!secret.includes(':')) return null
  const [, accessKeyId, secretAccessKey, sessionToken] =
    /^([A-Za-z0-9_]{4,128}):([A-Za-z0-9/+=]{8,256})(?::([\x21-\x7e]{1,16384}))?$/.exec(secret) ?? []
  if (accessKeyId === undefined || secretAccessKey === undefined)
    throw unusable(
      "the provider's credential must be ACCESS_KEY_ID:SECRET_ACCESS_KEY[:SESSION_TOKEN] or a Bedrock API key",
    )
  return { accessKeyId, secretAccessKey, sessionToken: sessionToken ?? null }
}

const HEADER_TEXT = /^[\x21-\x7e]+$/

/** The request with the headers that authenticate it. */
export const authorized = (request: UpstreamRequest, target: Target): UpstreamRequest => {
  const secret = target.secret?.trim() ?? ''
  if (secret === '') return request
  const credentials = credentialsOf(secret)
  if (credentials === null) {
    if (!HEADER_TEXT.test(secret)) throw unusable("the provider's credential holds characters that no API key has")
    return { ...request, headers: { ...request.headers, authorization: `Bearer ${secret}` } }
  }
  const url = URL.parse(request.url)
  if (url === null) throw unusable('the base URL of the provider is no URL')
  const signed = signAwsRequest(
    {
      method: request.method,
      path: url.pathname,
      query: url.search.slice(1),
      headers: [
        ['host', url.host],
        ['content-type', request.headers['content-type'] ?? 'application/json'],
      ],
      body: request.body ?? '',
    },
    credentials,
    { region: requiredRegion(target), service: 'bedrock', atMs: target.atMs ?? 0 },
  )
  return { ...request, headers: { ...request.headers, ...signed } }
}
