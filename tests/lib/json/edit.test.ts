import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { appendMembers, type Edit, editMembers, memberText, setMember, topLevel } from '../../../src/lib/json/edit.ts'

const edits = (all: Record<string, Edit>) => new Map(Object.entries(all))

describe('editMembers', () => {
  test('leaves every byte that is not edited: big integers, spacing, escapes', () => {
    const text = '{ "seed" : 12345678901234567890,\n\t"model":"a", "text": "\\u00e9 \\"}{\\\\" ,"n":1e400 }'
    const out = editMembers(text, edits({ model: { do: 'set', json: '"b"' } }))
    expect(out).toBe(text.replace('"a"', '"b"'))
  })

  test('a repeated key is left once, with the value that JSON.parse saw', () => {
    const text = '{"model":"cheap","x":1,"mod\\u0065l":"dear","stream":true,"stream":false}'
    expect(editMembers(text, edits({}))).toBe('{"x":1,"mod\\u0065l":"dear","stream":false}')
    expect(editMembers(text, edits({ model: { do: 'set', json: '"ruled"' } }))).toBe(
      '{"x":1,"mod\\u0065l":"ruled","stream":false}',
    )
    expect(editMembers(text, edits({ model: { do: 'remove' } }))).toBe('{"x":1,"stream":false}')
  })

  test('renames keep the value and replace what stood under the new name', () => {
    const text = '{"max_tokens":12345678901234567890, "max_completion_tokens":2}'
    expect(editMembers(text, edits({ max_tokens: { do: 'rename', to: 'max_completion_tokens' } }))).toBe(
      '{"max_completion_tokens":12345678901234567890}',
    )
  })

  test('empty objects and everything removed', () => {
    expect(editMembers(' { } ', edits({ a: { do: 'set', json: '1' } }))).toBe(' {"a":1} ')
    expect(editMembers('{"a":1}', edits({ a: { do: 'remove' } }))).toBe('{}')
    expect(editMembers('{"a":1}', edits({ a: { do: 'remove' }, b: { do: 'set', json: '2' } }))).toBe('{"b":2}')
  })

  test('text that is no object is an error, never an endless loop', () => {
    for (const text of [
      '',
      '[]',
      '1',
      '{',
      '{"a"',
      '{"a":',
      '{"a":1',
      '{"a":[',
      '{"a":"',
      '{"a":1,',
      '{a:1}',
      '{"a" 1}',
    ])
      expect(() => topLevel(text)).toThrow(SyntaxError)
  })
})

describe('memberText and appendMembers', () => {
  test('memberText gives the raw text of the last occurrence', () => {
    expect(memberText('{"a":1,"b": [1, 2.50] ,"a":12345678901234567890}', 'a')).toBe('12345678901234567890')
    expect(memberText('{"a":1,"b": [1, 2.50] }', 'b')).toBe('[1, 2.50]')
    expect(memberText('{"a":1}', 'c')).toBeNull()
  })

  test('appendMembers adds at the end', () => {
    expect(appendMembers('{"a":1}\n', '"b":2')).toBe('{"a":1,"b":2}\n')
    expect(appendMembers('{ }', '"b":2')).toBe('{ "b":2}')
  })
})

// Keys from a small set, so that repeats, edits of present keys and renames onto present keys all happen.
const key = fc.oneof(fc.constantFrom('model', 'stream', 'a', 'b', '', '__proto__', 'é"\\'), fc.string({ maxLength: 4 }))
const space = fc.constantFrom('', ' ', '\n', '\t ', '\r\n')
const escaped = (name: string) =>
  `"${[...name].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')}"`
const keyText = fc
  .tuple(key, fc.boolean())
  .map(([name, hard]) => (hard && !/[\ud800-\udfff]/.test(name) ? escaped(name) : JSON.stringify(name)))
const value = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }).map((v) => JSON.stringify(v, null, 1)),
  fc.constantFrom('12345678901234567890', '1.0', '1e5'),
)
const member = fc
  .tuple(space, keyText, space, space, value, space)
  .map(([a, k, b, c, v, d]) => `${a}${k}${b}:${c}${v}${d}`)
const object = fc
  .tuple(space, fc.array(member, { maxLength: 8 }), space)
  .map(([a, members, b]) => `${a}{${members.join(',')}}${b}`)
const edit: fc.Arbitrary<Edit> = fc.oneof(
  fc.record({ do: fc.constant('set' as const), json: fc.constantFrom('"x"', '{"y":[1]}', '1') }),
  fc.record({ do: fc.constant('remove' as const) }),
  fc.record({ do: fc.constant('rename' as const), to: fc.constantFrom('renamed', 'other') }),
)

const parsed = (text: string) => new Map(Object.entries(JSON.parse(text)))

test('property: the edited text parses to the edit of the parsed text, and each kept value keeps its bytes', () => {
  fc.assert(
    fc.property(object, fc.dictionary(key, edit, { maxKeys: 3 }), (text, chosen) => {
      const all = edits(chosen)
      const targets = [...all.values()].flatMap((e) => (e.do === 'rename' ? [e.to] : []))
      fc.pre(new Set(targets).size === targets.length && !targets.some((to) => all.has(to)))
      const expected = parsed(text)
      for (const [name, e] of all) {
        const present = expected.has(name)
        const before = expected.get(name)
        if (e.do === 'set') expected.set(name, JSON.parse(e.json))
        else if (present) expected.delete(name)
        if (e.do === 'rename' && present) expected.set(e.to, before)
      }
      const out = editMembers(text, all)
      expect(Object.fromEntries(parsed(out))).toEqual(Object.fromEntries(expected))
      const names = topLevel(out).map((m) => m.key)
      expect(new Set(names).size).toBe(names.length)
      for (const m of topLevel(text)) {
        if (all.has(m.key) || targets.includes(m.key)) continue
        expect(memberText(out, m.key)).toBe(memberText(text, m.key)!)
      }
      if (all.size === 0 && new Set(topLevel(text).map((m) => m.key)).size === topLevel(text).length)
        expect(out).toBe(text)
    }),
    { numRuns: 2000 },
  )
})

test('property: setting one member is what editing it is', () => {
  fc.assert(
    fc.property(object, key, value, (text, name, json) => {
      const keys = Object.keys(JSON.parse(text)).length
      expect(setMember(text, name, json, keys)).toBe(editMembers(text, new Map([[name, { do: 'set', json }]])))
    }),
    { numRuns: 2000 },
  )
})
