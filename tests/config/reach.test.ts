// Settings of who may reach what: names of the gateway, pages, variables of providers, set-up.
import { describe, expect, test } from 'bun:test'
import { loadConfig } from '../../src/config/schema.ts'
import { allowedHosts } from '../../src/http/host-check.ts'

const refusal = (variable: string, value: string): string | null => {
  try {
    loadConfig({ file: null, env: { [variable]: value } })
    return null
  } catch (error) {
    return (error as Error).message
  }
}

describe.each([
  [
    'GATEWAY_SERVER_ALLOWED_HOSTS',
    ['gateway.example.com', 'gateway:8443,10.0.0.1', '[::1]:8080', '::1', 'host.docker.internal'],
    ['https://gateway.example.com', 'a b', 'gateway.example.com/', '*', '*.example.com', 'a:b', 'user@host'],
  ],
  [
    'GATEWAY_SERVER_PUBLIC_URL',
    ['https://gateway.example.com', 'http://10.0.0.1:8080/', 'https://example.com/llm'],
    ['gateway.example.com', 'ftp://h', 'https://u:p@h', 'https://h?x=1', 'https://h#x', 'https://h:0'],
  ],
  [
    'GATEWAY_SERVER_CORS_ORIGINS',
    ['https://app.example.com', 'http://localhost:3000,https://b.example', '*'],
    [
      'app.example.com',
      'https://app.example.com/',
      'https://app.example.com/x',
      'null',
      'https://*.example.com',
      'HTTPS://a.example',
    ],
  ],
  [
    'GATEWAY_SECURITY_ENV_BINDINGS',
    ['LITELLM_MASTER_KEY', 'A_TOKEN,B_TOKEN'],
    ['GATEWAY_BOOTSTRAP_ADMIN_KEY', 'gateway_x', 'MASTER_KEY', 'A-B', '1A', 'A B'],
  ],
  ['GATEWAY_SETUP', ['on', 'off'], ['no', 'false', 'OFF ', '1']],
] as const)('%s', (variable, fine, bad) => {
  test.each([...fine])('%s is taken', (value) => {
    expect(refusal(variable, value)).toBeNull()
  })
  test.each([...bad])('%p stops the start', (value) => {
    expect(refusal(variable, value)).toContain(variable)
  })
})

// docs/behaviour.md: "Console access"
describe('allowed hosts', () => {
  const of = (listensOn: string, allowed: readonly string[] = [], publicUrl: string | null = null) =>
    allowedHosts({ listensOn, allowed, publicUrl })

  test('are loopback, the address, the public URL and the list; a port counts where it is named', () => {
    const hosts = of('192.168.1.5', ['a.example', 'b.example:9000'], 'https://gw.example/x')
    for (const host of [
      'localhost:1',
      '127.0.0.1',
      '[::1]:8',
      '192.168.1.5:8080',
      'A.example.:80',
      'b.example:9000',
      'gw.example',
    ])
      expect([host, hosts.has(host)]).toEqual([host, true])
    for (const host of [
      'b.example',
      'b.example:9001',
      'c.a.example',
      'a.example.evil',
      '',
      'a.example,b',
      'localhost.evil',
      '127.0.0.1.evil',
    ])
      expect([host, hosts.has(host)]).toEqual([host, false])
  })

  test('bind where the gateway listens on loopback, or a list is set', () => {
    expect(
      [of('127.0.0.1'), of('::1'), of('localhost'), of('0.0.0.0', ['a'])].map(({ isEnforced }) => isEnforced),
    ).toEqual([true, true, true, true])
    expect([of('0.0.0.0'), of('10.0.0.1', [], 'https://a')].map(({ isEnforced }) => isEnforced)).toEqual([false, false])
  })
})
