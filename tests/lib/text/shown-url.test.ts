import { expect, test } from 'bun:test'
import { redactedUrl } from '../../../src/lib/text/shown-url.ts'

test.each([
  ['postgres://db:5432/gateway', 'postgres://db:5432/gateway'],
  ['postgres://gate:secretA@db/gateway', 'postgres://[redacted]@db/gateway'],
  ['postgres://gate:secretA@secretB@127.0.0.1:5432/gateway', 'postgres://[redacted]@127.0.0.1:5432/gateway'],
  ['redis://:secretA@[::1]:6379/2', 'redis://[redacted]@[::1]:6379/2'],
  ['redis://h:6379', 'redis://h:6379'],
  ['postgres://db/gateway?user=gate&password=secretA', 'postgres://db/gateway?[redacted]'],
  ['https://collector:4318/otlp?token=secretA#secretB', 'https://collector:4318/otlp?[redacted]'],
])('%s is shown as %s', (text, shown) => expect(redactedUrl(text)).toBe(shown))

test.each([
  ['a password with a slash', 'postgres://gate:1/secretA@db/gateway'],
  ['a password with a question mark', 'postgres://gate:1?secretA@db/gateway'],
  ['a password with a hash', 'postgres://gate:1#secretA@db/gateway'],
  ['a port that is none', 'postgres://gate:secretA@db:notaport/gateway'],
  ['several hosts', 'postgres://gate:secretA@a:1,b:2/gateway'],
  ['a scheme alone', 'secretA:secretB'],
  ['no URL', 'secretA'],
])('%s: nothing of it is shown', (_, text) => expect(redactedUrl(text)).toBe('[redacted]'))
