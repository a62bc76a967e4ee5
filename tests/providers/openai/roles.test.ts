import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { openaiStream, withoutRole, withRoles } from '../../../src/providers/openai/stream.ts'

test('the role is taken out of a text, and nothing else; where it cannot be told, nothing is', () => {
  const spaced = {
    indent: (value: unknown) =>
      JSON.stringify(value, null, 1)
        .replace(/\n\s*/g, ' ')
        .replace(/([{[]) /g, '$1')
        .replace(/ ([}\]])/g, '$1'),
  }
  const delta = fc.dictionary(
    fc.string().filter((name) => name !== 'role'),
    fc.oneof(fc.string(), fc.constant('"role":"assistant",')),
  )
  fc.assert(
    fc.property(delta, delta, fc.boolean(), (before, behind, isSpaced) => {
      const write = isSpaced ? spaced.indent : JSON.stringify
      const rest = Object.entries({ ...before, ...behind })
      const at = Object.keys(before).length
      const whole = Object.fromEntries([...rest.slice(0, at), ['role', 'assistant'], ...rest.slice(at)])
      // What was written is compared: `spaced` takes spaces out of names too.
      const text = write({ choices: [{ delta: whole }] })
      const written = JSON.parse(text) as { choices: { delta: { role?: string } }[] }
      delete written.choices[0]!.delta.role
      const bare = withoutRole(text)
      if (bare !== null) expect(JSON.parse(bare)).toEqual(written)
      else expect(rest.length === 0 || isSpaced).toBe(true)
    }),
  )
  for (const text of [
    '{"delta":{}}',
    '{"delta":{"role":"user","a":1}}',
    '{"delta":{"role":"assistant","a":{"role":"assistant","b":1}}}',
  ])
    expect(withoutRole(text)).toBeNull()
})

test('of several choices each begins with its role, and names it once', () => {
  const begun = new Set([1])
  const choice = (index: number, delta: object) => ({ index, delta })
  const right = [choice(0, { role: 'assistant', content: 'a' }), choice(1, { content: 'b' })]
  expect(withRoles(right, begun)).toBe(right)
  expect(
    withRoles(
      [choice(0, { content: 'a' }), choice(1, { role: 'assistant', content: 'b' }), choice(2, { role: null })],
      begun,
    ),
  ).toEqual([...right, choice(2, { role: 'assistant' })])
})

test('a stream that repeats the role gives what one does that names it once', () => {
  const chunk = (delta: object, finish_reason: string | null = null) =>
    JSON.stringify({
      id: 'c',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'm',
      choices: [{ index: 0, delta, finish_reason }],
    })
  const read = (role: object) => {
    const decoder = openaiStream()
    const pieces = ['a', 'b', 'c "role":"assistant", d', 'e']
    const frames = [
      ...pieces.map((content, i) => chunk({ ...(i === 0 ? { role: 'assistant' } : role), content })),
      chunk(role, 'stop'),
    ]
    const parts = frames.flatMap((data) => decoder.push({ event: null, data }))
    return { parts, complete: decoder.complete }
  }
  expect(read({ role: 'assistant' })).toEqual(read({}))
  expect(read({}).complete).toBe(true)
})
