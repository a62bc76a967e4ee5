import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { forwardedBy, rangeError } from '../../../src/lib/http/forwarded.ts'

const headers = (xff: string | null, more: Record<string, string> = {}) =>
  new Headers({ ...(xff === null ? {} : { 'x-forwarded-for': xff }), ...more })

describe('the client behind proxies', () => {
  test.each([
    [[], '198.51.100.7', '1.1.1.1', '198.51.100.7'],
    [['10.0.0.0/8'], '198.51.100.7', '1.1.1.1', '198.51.100.7'],
    [['10.0.0.0/8'], '10.0.0.1', null, '10.0.0.1'],
    [['10.0.0.0/8'], '10.0.0.1', '', '10.0.0.1'],
    [['10.0.0.0/8'], '10.0.0.1', '1.1.1.1', '1.1.1.1'],
    [['10.0.0.0/8'], '10.0.0.1', '9.9.9.9, 1.1.1.1', '1.1.1.1'],
    [['10.0.0.0/8'], '10.0.0.1', '9.9.9.9, 1.1.1.1, 10.2.2.2 ,10.3.3.3', '1.1.1.1'],
    [['10.0.0.0/8'], '10.0.0.1', '10.1.1.1, 10.2.2.2', '10.1.1.1'],
    [['10.0.0.0/8'], '10.0.0.1', '1.1.1.1, rubbish, 10.2.2.2', '10.2.2.2'],
    [['10.0.0.0/8'], '::ffff:10.0.0.1', '1.1.1.1:4711', '1.1.1.1'],
    [['10.0.0.1'], '10.0.0.2', '1.1.1.1', '10.0.0.2'],
    [['10.0.0.1'], '10.0.0.1', '[2001:DB8::1]:443', '2001:db8::1'],
    [['10.0.0.1'], '10.0.0.1', '::ffff:192.0.2.1', '192.0.2.1'],
    [['2001:db8::/32'], '2001:db8:ffff::1', '1.1.1.1', '1.1.1.1'],
    [['2001:db8::/32'], '2001:db9::1', '1.1.1.1', '2001:db9::1'],
    [['::ffff:10.0.0.0/104'], '10.9.9.9', '1.1.1.1', '1.1.1.1'],
    [['0.0.0.0/0'], '8.8.8.8', '7.7.7.7, 6.6.6.6', '7.7.7.7'],
    [['fe80::/10'], 'fe80::1%eth0', '1.1.1.1', '1.1.1.1'],
  ] as const)('%j, %s says %j: %s', (trusted, peer, said, address) => {
    expect(forwardedBy(trusted)(peer, headers(said)).address).toBe(address)
  })

  test('TLS and host are those that a trusted proxy says, of the one that the client spoke to', () => {
    const said = headers('1.1.1.1', { 'x-forwarded-proto': 'HTTPS, http', 'x-forwarded-host': 'gw.example, inner' })
    expect(forwardedBy(['10.0.0.1'])('10.0.0.1', said)).toEqual({
      ...{ address: '1.1.1.1', tls: true, host: 'gw.example' },
      isProxied: true,
    })
    expect(forwardedBy(['10.0.0.1'])('10.0.0.3', said)).toEqual({
      ...{ address: '10.0.0.3', tls: false, host: null },
      isProxied: false,
    })
    expect(forwardedBy([])(null, said)).toEqual({
      ...{ address: 'unknown', tls: false, host: null },
      isProxied: false,
    })
  })

  test('whatever is sent, there is an answer; of a peer that is not trusted always the peer', () => {
    fc.assert(
      fc.property(fc.string(), fc.array(fc.oneof(fc.ipV4(), fc.ipV6(), fc.string())), (proto, list) => {
        const said = new Headers()
        const text = [...list, proto].join(',').replaceAll(/[^\x20-\x7e]/g, '?')
        said.set('x-forwarded-for', text)
        expect(forwardedBy(['10.0.0.0/8'])('192.0.2.1', said).address).toBe('192.0.2.1')
        expect(forwardedBy(['0.0.0.0/0', '::/0'])('192.0.2.1', said).address).toMatch(/^[\da-f.:]+$/)
      }),
    )
  })
})

test('what is no address and no range is said to be none', () => {
  for (const good of ['10.0.0.1', '10.0.0.0/8', '0.0.0.0/0', '::1', '2001:db8::/32', '::/0', '1.2.3.4/32']) {
    expect(rangeError(good)).toBeNull()
  }
  for (const bad of [
    '',
    'proxy',
    '10.0.0',
    '10.0.0.0/33',
    '::/129',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '1.2.3.4/-1',
    'fe80::1%eth0',
    '*',
  ]) {
    expect(rangeError(bad)).not.toBeNull()
  }
})
