import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { type Edit, editMembers } from '../../../src/lib/json/edit.ts'
import { RequestDraft } from '../../../src/providers/openai/draft.ts'
import type { ChatCall, Target } from '../../../src/providers/port.ts'

const NAMES = ['model', 'stream_options', 'user', 'käse "', 'n', '__proto__', 'a b']
const name = fc.constantFrom(...NAMES)
const json = fc.jsonValue({ maxDepth: 1 }).map((value) => JSON.stringify(value))
const space = fc.constantFrom('', ' ', '\n\t')
const member = fc
  .tuple(space, name, space, json, space)
  .map(([a, key, b, value, c]) => `${a}${JSON.stringify(key)}${b}:${value}${c}`)
const request = fc
  .tuple(fc.array(member, { maxLength: 5 }), json, fc.array(member, { maxLength: 2 }))
  .map(([before, model, after]) => `{${[...before, `"model":${model}`, ...after].join(',')}}`)
const edit = fc.oneof(
  { weight: 4, arbitrary: json.map((value): Edit => ({ do: 'set', json: value })) },
  { weight: 1, arbitrary: fc.constant<Edit>({ do: 'remove' }) },
)

test('property: a draft is what editing the members of its request is, whether something is only added or not', () => {
  let onlyAdded = 0
  fc.assert(
    fc.property(request, fc.array(fc.tuple(name, edit), { maxLength: 3 }), (raw, edits) => {
      const body = JSON.parse(raw) as Record<string, unknown>
      const draft = new RequestDraft(
        { raw, body } as unknown as ChatCall,
        { upstreamModel: 'm-1' } as unknown as Target,
      )
      const all = new Map<string, Edit>()
      for (const [key, change] of edits.filter(([key]) => key !== 'model' && key !== '__proto__')) {
        if (change.do === 'set') draft.set(key, change.json, null)
        else draft.remove(key)
        all.set(key, change)
      }
      if (all.size > 0 && [...all].every(([key, { do: what }]) => what === 'set' && !Object.hasOwn(body, key)))
        onlyAdded++
      const text = draft.text()
      expect(text).toBe(editMembers(raw, all.set('model', { do: 'set', json: '"m-1"' })))
    }),
    { numRuns: 2_000 },
  )
  expect(onlyAdded).toBeGreaterThan(100)
})
