// Provider tests against fakes of the vendors, over the real dialer and the real kinds: the result of each check, its
// cost, and what aborts it.
import { describe, expect, test } from 'bun:test'
import { CHECKS } from '../../../src/upkeep/models/provider-checks.ts'
import { budgetRow, budgetWorld } from '../../state/budgets/world.ts'
import { PAYER, UNPRICED, withVendors } from './vendor-work.ts'

const { answering, closing, placeOf, workOn } = withVendors()

const LISTING = ['openai', 'anthropic', 'gemini', 'cohere', 'ollama', 'groq', 'vllm', 'mistral', 'openrouter']
const NOT_LISTING = ['azure_openai', 'perplexity']

describe('a test', () => {
  test.each(LISTING)(
    '%s: it is reached, lists, and answers; the sample is charged as an outcome of nobody’s',
    async (name) => {
      const { test: run, spool } = workOn(placeOf(name))
      const [connectivity, models, sample] = await run()
      expect(connectivity).toMatchObject({ check: 'connectivity', status: 'passed' })
      expect(models).toMatchObject({ check: 'models', status: 'passed' })
      expect(models!.models).toBeGreaterThan(0)
      expect(sample).toMatchObject({ check: 'sample', status: 'passed', model: 'registered' })
      const [settled] = spool.settled()
      expect(settled).toMatchObject({ purpose: 'test', tenant_id: null, key_id: null, outcome: 'success' })
      expect(settled).toMatchObject({ id: sample!.request_id, cost_nano_usd: sample!.cost_nano_usd })
      expect(sample!.cost_nano_usd).toBeGreaterThan(0)
      expect(sample!.cost_basis).toBe(name === 'openrouter' ? 'provider_reported' : 'measured')
      expect(spool.admitted()).toMatchObject([{ purpose: 'test', id: settled!.id }])
    },
  )

  test.each(NOT_LISTING)('%s cannot list: skipped, with the reason, and the test succeeds', async (name) => {
    const [, models, sample] = await workOn(placeOf(name)).test()
    expect(models).toMatchObject({ status: 'skipped', detail: expect.stringContaining('cannot list') })
    expect(sample!.status).toBe('passed')
  })

  test('bedrock and the sandbox too', async () => {
    // Bedrock lists at another host than it answers at: the test calls only the server that runs here.
    const bedrock = await workOn(placeOf('bedrock')).test(['connectivity', 'sample'])
    expect(bedrock.map(({ status }) => status)).toEqual(['passed', 'passed'])
    const sandbox = await workOn({ kind: 'sandbox', baseUrl: null, model: 'sandbox-echo' }).test()
    expect(sandbox.map(({ status }) => status)).toEqual(['passed', 'passed', 'passed'])
  })

  test('a bad key: reached, but neither listed nor answered, and no text holds the key', async () => {
    const secret = 'wrong-key-of-nobody-1234'
    for (const name of ['openai', 'anthropic', 'cohere']) {
      const results = await workOn(placeOf(name, { secret })).test()
      expect(results[0]!.status).toBe('passed')
      expect(results[2]).toMatchObject({ status: 'failed', error_code: 'authentication_error', upstream_status: 401 })
      expect(JSON.stringify(results)).not.toContain(secret)
    }
  })

  test('no credential: what needs one says how to give one', async () => {
    const { test: run, spool } = workOn(placeOf('openai', { secret: null }))
    const [connectivity, models, sample] = await run()
    expect(connectivity!.status).toBe('passed')
    expect(models).toMatchObject({ status: 'failed', detail: expect.stringContaining('no credential') })
    expect(sample).toMatchObject({ status: 'failed', detail: expect.stringContaining('/credential') })
    expect(spool.records).toEqual([])
  })

  test('a credential that no header can carry is what is to blame, not the address', async () => {
    const results = await workOn(placeOf('openai', { secret: 'sk-of\ntwo lines' })).test()
    expect(results.map(({ status }) => status)).toEqual(['passed', 'failed', 'failed'])
    for (const { detail } of results.slice(1)) {
      expect(detail).toContain('the credential cannot be used: the header authorization cannot be sent')
      expect(detail).not.toMatch(/base_url|sk-of/)
    }
  })

  test('S19: a server that quotes the key it was sent: the key is cut out', async () => {
    const secret = 'sk-quoted-by-a-careless-server'
    const error = { error: { message: `no such thing for ${secret}`, type: 'invalid_request_error' } }
    const baseUrl = answering(() => Response.json(error, { status: 400 }))
    const results = await workOn({ kind: 'openai_compatible', baseUrl, secret }).test()
    expect(results.map(({ status }) => status)).toEqual(['passed', 'failed', 'failed'])
    expect(JSON.stringify(results)).not.toContain(secret)
  })

  test.each([
    [404, 'not_found'],
    [429, 'rate_limited'],
    [500, 'upstream_error'],
  ])('status %d of the provider is %s, with its status; it can be reached all the same', async (status, code) => {
    const baseUrl = answering(() => Response.json({ error: { message: 'not now' } }, { status }))
    const { test: run, spool } = workOn({ kind: 'openai_compatible', baseUrl })
    const [connectivity, models, sample] = await run()
    expect(connectivity).toMatchObject({ status: 'passed', upstream_status: status })
    expect(models).toMatchObject({ status: 'failed', error_code: code, upstream_status: status })
    expect(sample).toMatchObject({ status: 'failed', error_code: code, upstream_status: status, cost_nano_usd: 0 })
    expect(spool.settled()).toMatchObject([{ outcome: 'error', error_code: code, purpose: 'test' }])
  })

  test('HTML in place of an answer is an error of the provider', async () => {
    const html = () => new Response('<!doctype html><p>Welcome', { headers: { 'content-type': 'text/html' } })
    const [connectivity, models, sample] = await workOn({ kind: 'openai_compatible', baseUrl: answering(html) }).test()
    expect(connectivity!.status).toBe('passed')
    expect(models).toMatchObject({ status: 'failed', error_code: 'upstream_error' })
    expect(sample).toMatchObject({ status: 'failed', error_code: 'upstream_error' })
  })

  test('S3: a redirect is not followed, and told', async () => {
    const moved = () => new Response(null, { status: 301, headers: { location: 'http://127.0.0.1:9/' } })
    const [connectivity] = await workOn({ kind: 'openai_compatible', baseUrl: answering(moved) }).test(['connectivity'])
    expect(connectivity).toMatchObject({ status: 'passed', detail: expect.stringContaining('redirect') })
  })

  test('nobody there, no such name, no TLS: each in words', async () => {
    const closed = await workOn({ kind: 'openai_compatible', baseUrl: 'http://127.0.0.1:9/v1' }).test()
    expect(closed.map(({ status }) => status)).toEqual(['failed', 'failed', 'failed'])
    expect(closed[0]!.detail).toContain('the connection failed')
    const lost = () => Promise.reject(new Error('ENOTFOUND'))
    const nameless = await workOn(
      { kind: 'openai_compatible', baseUrl: 'https://api.example/v1' },
      { resolve: lost },
    ).test()
    for (const { status, detail } of nameless) {
      expect(status).toBe('failed')
      expect(detail).toContain('could not be resolved')
    }
    const plain = answering(() => new Response('ok')).replace('http:', 'https:')
    const [tls] = await workOn({ kind: 'openai_compatible', baseUrl: plain }).test(['connectivity'])
    expect(tls).toMatchObject({ status: 'failed', detail: expect.stringContaining('TLS') })
  })

  test('an address that the egress rules refuse: why, and not which address it resolves to', async () => {
    const resolve = async () => ['10.1.2.3']
    const place = { kind: 'openai_compatible', baseUrl: 'https://inside.example/v1' }
    const { test: run, spool } = workOn(place, { allowPrivate: false, resolve })
    const results = await run()
    for (const { status, detail } of results) {
      expect(status).toBe('failed')
      expect(detail).toContain('egress')
      expect(detail).not.toContain('10.1.2.3')
    }
    expect(spool.settled()).toMatchObject([{ cost_nano_usd: 0, cost_basis: 'none' }])
  })

  test('what the provider says of an operator’s own prompt is shown and not recorded', async () => {
    const echo = async () => Response.json({ error: { message: 'cannot answer "my private words"' } }, { status: 400 })
    const { work, provider, models, client } = workOn({ kind: 'openai_compatible', baseUrl: answering(echo) })
    const asked = { checks: ['sample'] as const, entry: models[0]!, prompt: 'my private words' }
    const [checked] = await work.test(provider, asked, PAYER, client.signal)
    expect(checked!.shown.detail).toContain('my private words')
    expect(JSON.stringify(checked!.recorded)).not.toContain('my private words')
    expect(checked!.recorded).toMatchObject({ error_code: 'invalid_request', upstream_status: 400 })
  })

  test('what the payer’s budgets do not allow fails the sample, with the reason, and no other check', async () => {
    const world = budgetWorld(budgetRow())
    closing.push(() => world.close())
    const { work, provider, models, client, spool } = workOn(placeOf('openai'), { budgets: world.open('i') })
    const none = { ...models[0]!, ...UNPRICED }
    for (const [asked, reason] of [
      [{ entry: none, prompt: null }, 'the budget of this tenant limits what may be spent, and the model has no price'],
      [{ entry: none, prompt: 'my private words' }, 'the model has no price'],
      [{ entry: models[0]!, prompt: null }, 'does not have as much left as this request may cost'],
    ] as const) {
      const results = await work.test(provider, { checks: CHECKS, ...asked }, PAYER, client.signal)
      expect(results.map(({ shown }) => shown.status)).toEqual(['passed', 'passed', 'failed'])
      const { recorded } = results[2]!
      expect(recorded).toMatchObject({ error_code: 'quota_exceeded', model: 'registered' })
      expect(recorded.detail).toContain(reason)
      expect(recorded.request_id).toBeUndefined()
    }
    expect(spool.records).toEqual([])
  })

  test('what could not be recorded fails the sample, and no other check', async () => {
    const { test: run, spool } = workOn(placeOf('openai'))
    spool.close_()
    expect((await run())[2]).toMatchObject({ status: 'failed', error_code: 'provider_unavailable' })
    spool.open = true
    spool.before = (type) => {
      if (type === 'request.settled') throw new Error('the disk is gone')
    }
    const results = await run()
    expect(results.map(({ status }) => status)).toEqual(['passed', 'passed', 'failed'])
    expect(results[2]).toMatchObject({ error_code: 'internal_error', detail: 'the outcome could not be recorded' })
  })

  test('without a model the sample is skipped', async () => {
    const { test: run, spool } = workOn(placeOf('openai'))
    expect(await run(['sample'], null, null)).toMatchObject([{ check: 'sample', status: 'skipped' }])
    expect(spool.records).toEqual([])
  })
})

describe('work under way', () => {
  const hanging = () => {
    const arrived = Promise.withResolvers<void>()
    const baseUrl = answering(() => {
      arrived.resolve()
      return new Promise<Response>(() => {})
    })
    return { arrived: arrived.promise, place: { kind: 'openai_compatible', baseUrl } }
  }
  const errorOf = (work: Promise<unknown>) => work.then(() => null).catch((error: unknown) => error)

  test('ends with its client, and what was sent is settled as canceled', async () => {
    const { arrived, place } = hanging()
    const { test: run, client, spool } = workOn(place)
    const error = errorOf(run(['sample']))
    await arrived
    client.abort()
    expect(await error).toMatchObject({ code: 'request_canceled' })
    expect(spool.settled()).toMatchObject([{ outcome: 'canceled', purpose: 'test' }])
  })

  test('ends with the process, which lets nothing more in', async () => {
    const { arrived, place } = hanging()
    const { test: run, work, spool } = workOn(place)
    const error = errorOf(run())
    await arrived
    await work.close()
    expect(await error).toMatchObject({ code: 'provider_unavailable', message: expect.stringContaining('stopping') })
    expect(await errorOf(run())).toMatchObject({ code: 'provider_unavailable' })
    expect(spool.settled().length).toBe(spool.admitted().length)
  })

  test('a fifth piece of work is 429; a place that is given back can be taken', async () => {
    const { place } = hanging()
    const { test: run, client } = workOn(place)
    const four = Array.from({ length: 4 }, () => errorOf(run(['sample'])))
    expect(await errorOf(run(['sample']))).toMatchObject({ code: 'rate_limited', retryAfterS: 5 })
    client.abort()
    await Promise.all(four)
    expect(await errorOf(run(['connectivity']))).toMatchObject({ code: 'request_canceled' })
  })
})
