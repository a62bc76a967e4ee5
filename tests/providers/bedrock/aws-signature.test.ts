// Signature Version 4 against AWS's published test suite.
import { describe, expect, test } from 'bun:test'
import { sha256Hex } from '../../../src/lib/crypto/digest.ts'
import {
  type AwsRequest,
  awsCanonicalRequest,
  awsEncode,
  signAwsRequest,
} from '../../../src/providers/bedrock/aws-signature.ts'
import suite from '../../fixtures/aws-signature/vectors.json' with { type: 'json' }

/** A request as the suite writes it: nothing encoded, header values that may go on in the next line. */
const requestOf = (text: string, signBody: boolean): AwsRequest => {
  const [head = '', body = ''] = text.split(/\n\n([\s\S]*)/)
  const [line = '', ...rest] = head.split('\n')
  const [, method = '', target = ''] = /^(\S+) (.*) HTTP\/1\.1$/.exec(line) ?? []
  const headers: [string, string][] = []
  for (const one of rest.filter((some) => some !== '')) {
    if (/^\s/.test(one)) headers.at(-1)![1] += `\n${one}`
    else headers.push([one.slice(0, one.indexOf(':')), one.slice(one.indexOf(':') + 1)])
  }
  if (signBody) headers.push(['x-amz-content-sha256', sha256Hex(body)])
  const at = target.indexOf('?')
  const [path, query] = at === -1 ? [target, ''] : [target.slice(0, at), target.slice(at + 1)]
  return { method, path, query, headers, body }
}

describe("AWS's test suite", () => {
  for (const vector of suite.vectors)
    test(vector.name, () => {
      const { credentials, region, service } = vector
      const request = requestOf(vector.request, vector.sign_body)
      const token = 'token' in credentials && !vector.omit_session_token ? (credentials.token as string) : null
      const headers = signAwsRequest(
        request,
        { accessKeyId: credentials.access_key_id, secretAccessKey: credentials.secret_access_key, sessionToken: token },
        { region, service, atMs: Date.parse(vector.timestamp) },
      )
      const { authorization, ...added } = headers
      expect(awsCanonicalRequest({ ...request, headers: [...request.headers, ...Object.entries(added)] })).toBe(
        vector.canonical,
      )
      expect(authorization).toEndWith(`, Signature=${vector.signature}`)
      expect(authorization).toStartWith(
        `AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/${service}/aws4_request, SignedHeaders=`,
      )
    })
})

test('what is encoded on the wire is encoded again for the signature', () => {
  const canonical = awsCanonicalRequest({
    method: 'POST',
    path: `/model/${awsEncode('arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.a-v1:0')}/converse`,
    query: 'b=2&a=%2F&a=1',
    headers: [['Host', 'h']],
    body: '',
  })
  expect(canonical.split('\n').slice(1, 3)).toEqual([
    '/model/arn%253Aaws%253Abedrock%253Aeu-west-1%253A123456789012%253Ainference-profile%252Feu.a-v1%253A0/converse',
    'a=%2F&a=1&b=2',
  ])
})

test('characters that have to be encoded', () => {
  expect(awsEncode("aZ9-._~!'()*:/ é\ud800")).toBe('aZ9-._~%21%27%28%29%2A%3A%2F%20%C3%A9%EF%BF%BD')
})
