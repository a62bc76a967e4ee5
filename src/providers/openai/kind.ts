// The kind of every upstream that speaks the OpenAI wire. Their differences are rows: `rows.ts`.

import { FIELD_NAMES } from '../options.ts'
import type { ProviderKind } from '../port.ts'
import { statusFailure } from '../shared/failure.ts'
import { type Json, objectOf, parseJson } from '../shared/read-json.ts'
import { bearer, joinUrl } from '../shared/target-url.ts'
import { openaiAnswer, STANDARD } from './answer.ts'
import { readListing } from './listing.ts'
import { openaiRequest } from './request.ts'
import type { OpenAiRow } from './row.ts'
import { openaiStream } from './stream.ts'

const errorOf = (body: string): Json => {
  const parsed = objectOf(parseJson(body))
  return typeof parsed.error === 'object' && parsed.error !== null ? objectOf(parsed.error) : parsed
}

export const openaiShaped = (row: OpenAiRow): ProviderKind => {
  const { kind, needsCredential, capabilities, defaultBaseUrl, usualEnv, readAs } = row
  const { request: quirks = {}, answer, listing = {}, stopsBillingWhenLeft } = row
  const shaped: ProviderKind = {
    kind,
    needsCredential,
    capabilities,
    defaultBaseUrl,
    usualEnv,
    ...(stopsBillingWhenLeft === undefined ? {} : { stopsBillingWhenLeft }),
    ...(row.usualBaseUrlEnv === undefined ? {} : { usualBaseUrlEnv: row.usualBaseUrlEnv }),
    options: { ...row.options, forward: FIELD_NAMES, drop: FIELD_NAMES },
    request: (call, target) => openaiRequest(call, target, quirks, kind),
    response: (body, reading) => openaiAnswer(body, reading, answer),
    usageIn: (body) => (answer ?? STANDARD).usageOf(objectOf(parseJson(body))),
    stream: (reading) => openaiStream(reading, answer),
    failure: (status, body, headers, reading) =>
      statusFailure(status, body, headers, reading, readAs?.(status, errorOf(body), headers) ?? status),
  }
  if (listing === null) return shaped
  return {
    ...shaped,
    listing: {
      request: (target) => ({
        method: 'GET',
        url: listing.url?.(target.baseUrl) ?? joinUrl(target.baseUrl, '/models'),
        headers: {
          accept: 'application/json',
          ...(quirks.authorization?.(target) ?? bearer(target.secret)),
          ...quirks.headers?.(target),
        },
        body: null,
        shaping: [],
      }),
      read: (body) => readListing(body, listing),
      ...(listing.prices === undefined ? {} : { namesPrices: true as const }),
    },
  }
}
