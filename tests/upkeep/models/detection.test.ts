// Detection of capabilities against fakes of the vendors: what is proven, disproved, and left open.
import { describe, expect, test } from 'bun:test'
import { withVerdict } from '../../../src/upkeep/models/detect.ts'
import { budgetRow, budgetWorld } from '../../state/budgets/world.ts'
import { PAYER, UNPRICED, withVendors } from './vendor-work.ts'

const { answering, closing, placeOf, workOn } = withVendors()

describe('a detection', () => {
  const ALL = ['chat', 'streaming', 'tools', 'json_mode', 'json_schema', 'parallel_tool', 'seed', 'vision']
  const allBut = (...names: string[]) => ALL.filter((name) => !names.includes(name))

  test.each([
    ['openai', ALL, []],
    ['openai_reasoning', ALL, []],
    ['anthropic', allBut('json_mode', 'seed'), ['json_mode', 'seed']],
    ['gemini', ALL, []],
    ['mistral', ALL, []],
    ['deepseek', allBut('json_schema', 'parallel_tool', 'seed'), ['json_schema', 'parallel_tool', 'seed']],
    // It cannot be made to call a tool, and calls one when it is asked to.
    ['ollama', allBut('parallel_tool'), ['parallel_tool']],
    ['bedrock', allBut('json_mode', 'seed'), ['json_mode', 'seed']],
    ['together', allBut('parallel_tool'), ['parallel_tool']],
  ])(
    '%s: what its vendor takes is proven, what it refuses or is never sent is disproved',
    async (name, proven, not) => {
      const { work, models, client, spool } = workOn(placeOf(name))
      const [found] = await work.detect(models, PAYER, client.signal)
      expect(withVerdict(found!, 'proven')).toEqual(proven as never)
      expect(withVerdict(found!, 'disproved')).toEqual(not as never)
      const settled = spool.settled()
      expect(settled.every(({ purpose, tenant_id }) => purpose === 'detection' && tenant_id === null)).toBe(true)
      expect(settled.length).toBe(spool.admitted().length)
      expect(found!.costNanoUsd).toBe(settled.reduce((sum, { cost_nano_usd }) => sum + cost_nano_usd!, 0))
    },
  )

  test('a provider that fails says nothing of its models, and is not asked for each of them', async () => {
    let asked = 0
    const baseUrl = answering(() => {
      asked++
      return Response.json({ error: { message: 'who are you' } }, { status: 401 })
    })
    const { work, models, client } = workOn({ kind: 'openai_compatible', baseUrl, secret: 'wrong-key-of-nobody' })
    const many = Array.from({ length: 8 }, (_, i) => ({ ...models[0]!, modelId: `mod_${i}`, name: `m-${i}` }))
    const found = await work.detect(many, PAYER, client.signal)
    expect(asked).toBeLessThanOrEqual(2)
    expect(found.flatMap((one) => withVerdict(one, 'proven'))).toEqual([])
    expect(found.flatMap((one) => withVerdict(one, 'disproved'))).toEqual([])
    expect(found.at(-1)).toMatchObject({ attempted: false })
    expect(found.at(-1)!.verdicts[0]!.detail).toContain('authentication_error')
  })

  test('what the payer’s budgets do not allow is skipped with the reason; the models that they do allow are asked', async () => {
    const world = budgetWorld(budgetRow({ limit_nano_usd: 10_000_000_000 }))
    closing.push(() => world.close())
    const { work, models, client, spool } = workOn(placeOf('openai'), { budgets: world.open('i') })
    const entries = [{ ...models[0]!, ...UNPRICED, modelId: 'mod_none', name: 'unpriced' }, models[0]!]
    const [refused, asked] = await work.detect(entries, PAYER, client.signal)
    expect(refused).toMatchObject({ attempted: false, costNanoUsd: 0 })
    expect(withVerdict(refused!, 'skipped')).toEqual(ALL as never)
    for (const { detail } of refused!.verdicts) expect(detail).toContain('the model has no price')
    expect(withVerdict(asked!, 'proven')).toEqual(ALL as never)
    expect(spool.admitted()).toHaveLength(ALL.length)
  })

  test('where what a question cost cannot be recorded no further one is put, and what was found out stays', async () => {
    const { work, models, client, spool } = workOn(placeOf('openai'))
    spool.before = (type) => {
      if (type === 'request.settled' && spool.settled().length > 0) throw new Error('the disk is gone')
    }
    const [found] = await work.detect(models, PAYER, client.signal)
    expect(found).toMatchObject({ attempted: true, costNanoUsd: null })
    expect(withVerdict(found!, 'proven')).toEqual(['chat'])
    expect(withVerdict(found!, 'indeterminate').length).toBeLessThanOrEqual(3)
    expect(found!.verdicts.at(-1)).toMatchObject({ verdict: 'skipped', detail: 'the outcome could not be recorded' })
  })

  test('a server that ignores what it does not know proves nothing by that', async () => {
    const message = { role: 'assistant', content: 'ok' }
    const answer = { id: 'x', object: 'chat.completion', choices: [{ index: 0, message, finish_reason: 'stop' }] }
    const { work, models, client } = workOn({
      kind: 'openai_compatible',
      baseUrl: answering(() => Response.json(answer)),
    })
    const [found] = await work.detect(models, PAYER, client.signal)
    expect(withVerdict(found!, 'proven')).toEqual(['chat', 'seed'])
    expect(withVerdict(found!, 'disproved')).toEqual([])
  })

  test('a throttled question is indeterminate', async () => {
    let asked = 0
    const message = { role: 'assistant', content: 'ok' }
    const answer = { id: 'x', object: 'chat.completion', choices: [{ index: 0, message, finish_reason: 'stop' }] }
    const baseUrl = answering(() =>
      asked++ === 0
        ? Response.json(answer)
        : Response.json({ error: { message: 'tools, seed, images: later' } }, { status: 429 }),
    )
    const { work, models, client } = workOn({ kind: 'openai_compatible', baseUrl })
    const [found] = await work.detect(models, PAYER, client.signal)
    expect(withVerdict(found!, 'indeterminate')).toHaveLength(7)
  })
})
