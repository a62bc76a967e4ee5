import { describe, expect, test } from 'bun:test'
import { addressRefusal, classifyAddress, urlRefusal } from '../../../src/lib/http-client/egress.ts'

describe('classifyAddress', () => {
  const cases: Record<string, readonly string[]> = {
    public: [
      '8.8.8.8',
      '1.1.1.1',
      '172.32.0.1',
      '100.128.0.1',
      '2606:4700::1111',
      '2002:808:808::1',
      '::ffff:8.8.8.8',
      '64:ff9b::808:808',
    ],
    private: [
      '127.0.0.1',
      '127.255.255.254',
      '0.0.0.0',
      '10.1.2.3',
      '172.16.0.1',
      '172.31.255.255',
      '192.168.1.1',
      '169.254.1.1',
      '100.64.0.1',
      '198.18.0.1',
      '::',
      '::1',
      'fe80::1',
      'fe80::1%eth0',
      'fc00::1',
      'fdab::1',
      'fec0::1',
      '::ffff:127.0.0.1',
      '::ffff:7f00:1',
      '::127.0.0.1',
      '64:ff9b::a00:1',
      '2002:7f00:1::',
      '::ffff:0:10.0.0.1',
    ],
    metadata: [
      '169.254.169.254',
      '169.254.170.2',
      '100.100.100.200',
      '168.63.129.16',
      '::ffff:169.254.169.254',
      '::ffff:a9fe:a9fe',
      '64:ff9b::a9fe:a9fe',
      'fd00:ec2::254',
      'fd20:ce::254',
      'fd00:42::42',
      'fe80::a9fe:a9fe',
      '169.254.170.23',
      '169.254.42.42',
      '2002:a9fe:a9fe::',
    ],
    unroutable: [
      '224.0.0.1',
      '255.255.255.255',
      '240.0.0.1',
      '192.0.2.1',
      'ff02::1',
      '2001:db8::1',
      '2001:0:7f00:1::',
      '3fff::1',
      '192.88.99.1',
      'example.com',
      '',
      '1.2.3',
      '127.1',
    ],
  }
  for (const [kind, addresses] of Object.entries(cases))
    test(kind, () => {
      for (const address of addresses)
        expect([address, classifyAddress(address)]).toEqual([address, kind as ReturnType<typeof classifyAddress>])
    })

  test('S1: metadata is refused even where private addresses are allowed', () => {
    expect(addressRefusal('169.254.169.254', true)).toContain('metadata')
    expect(addressRefusal('::ffff:a9fe:a9fe', true)).toContain('metadata')
    expect(addressRefusal('127.0.0.1', true)).toBeNull()
    expect(addressRefusal('127.0.0.1', false)).toContain('egress.allow_private')
  })
})

// docs/behaviour.md: "Providers and secrets"
describe('urlRefusal', () => {
  const refused = (text: string, allowPrivate = false) => urlRefusal(new URL(text), allowPrivate)

  test('S1: the tricks end as what they are', () => {
    for (const text of [
      'http://127.1/',
      'http://2130706433/',
      'http://0x7f.1/',
      'http://①②⑦.0.0.1/',
      'http://0177.0.0.1/',
      'http://0x7f000001/',
      'http://017700000001/',
      'http://127.0.1/',
      'http://[::ffff:127.0.0.1]/',
      'http://[64:ff9b::7f00:1]/',
      'http://[fe80::1]/',
      'http://100.64.0.1/',
      'http://[::ffff:7f00:1]/',
      'http://[::1]/',
      'http://0/',
      'http://127.0.0.1./',
    ])
      expect([text, refused(text)]).toEqual([text, expect.stringContaining('egress.allow_private')])
    for (const text of [
      'http://169.254.169.254/latest',
      'http://2852039166/',
      'http://0xa9fea9fe/',
      'http://0251.0376.0251.0376/',
    ])
      expect([text, refused(text, true)]).toEqual([text, expect.stringContaining('metadata')])
    expect(refused('http://[::ffff:a9fe:a9fe]/', true)).toContain('metadata')
    expect(refused('http://[fd00:ec2::254]/', true)).toContain('metadata')
    expect(refused('http://metadata.google.internal./x', true)).toContain('metadata')
    expect(refused('http://METADATA/', true)).toContain('metadata')
  })

  test('S1: user names, fragments and other schemes are refused, ordinary URLs are not', () => {
    expect(refused('https://user@api.example.com/', true)).toContain('user name')
    expect(refused('https://:secret@api.example.com/', true)).toContain('user name')
    for (const text of ['https://api.example.com/v1#', 'https://api.example.com#.vendor.com/v1'])
      expect(refused(text, true)).toContain('fragment')
    for (const port of [0, 22, 25, 6667]) expect(refused(`http://api.example.com:${port}/`, true)).toContain('port')
    expect(URL.parse('http://api.example.com:65536/')).toBeNull()
    expect(refused('ftp://api.example.com/')).toContain('http')
    expect(refused('file:///etc/passwd')).toContain('http')
    expect(refused('https://api.openai.com/v1')).toBeNull()
    expect(refused('http://127.0.0.1:11434/v1', true)).toBeNull()
  })
})
