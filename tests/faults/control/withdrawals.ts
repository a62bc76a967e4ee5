// C8: what is withdrawn on one of three instances is requested on the two others without a pause: a revoked key, the
// old secret of a rotated key, a scope removed from a key, a killed provider.
// `bun tests/faults/control/withdrawals.ts [--times 200] [--load 0]`: so many of each, on a real broker. `--load`: so
// many clients on each of the two others request chat completions of another provider without a pause, which saturates
// two cores.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Kafka, startKafka } from '../../../infra/kafka/kafka.ts'
import { initTopics, kafkaSettings, NO_READ_MODELS } from '../../services/cluster.ts'
import { eventually } from '../../services/eventually.ts'
import { type GatewayProcess, INFERENCE_KEY, startGateway } from '../../services/gateway.ts'
import { percentiles } from '../oracle.ts'
import { conclude, type Figure, numberArgument } from './figures.ts'

const AIM_MS = 50
/** Not counted: processes that have just started compile what they run. */
const WARM = 20

interface Withdrawn {
  /** Sends it to the first instance. */
  withdraw(): Promise<Response>
  /** Sends the request to another instance; true while it is granted. */
  isGiven(gateway: GatewayProcess): Promise<boolean>
}

interface Kind {
  readonly what: string
  /** Makes it and waits until every instance gives it. */
  prepare(n: number): Promise<Withdrawn>
}

const world = (gateways: readonly GatewayProcess[], tenantId: string) => {
  const [first, ...others] = gateways as [GatewayProcess, ...GatewayProcess[]]
  const folded = async (answer: Response) => {
    const headers = { 'X-Gateway-Min-Revision': answer.headers.get('X-Gateway-Revision')! }
    for (const gateway of others) await (await gateway.request('/v1/models', { headers })).arrayBuffer()
  }
  const keyOf = async (name: string, more: readonly string[] = []) => {
    const body = { tenant_id: tenantId, name, scopes: ['inference', ...more] }
    const answer = await first.request('/admin/v1/keys', { body })
    if (!answer.ok) throw new Error(`a key was answered with ${answer.status}: ${await answer.text()}`)
    const { id, plaintext } = (await answer.json()) as { id: string; plaintext: string }
    await folded(answer)
    const isGiven = async (gateway: GatewayProcess) => {
      const { status } = await gateway.request('/v1/models', { key: plaintext })
      return status !== 401 && status !== 403
    }
    return { id, isGiven }
  }
  return { first, others, folded, keyOf }
}

const kindsOf = ({ first, folded, keyOf }: ReturnType<typeof world>, providerId: string): readonly Kind[] => {
  const kill = (isKilled: boolean) =>
    first.request(`/admin/v1/providers/${providerId}/kill`, { body: { kill: isKilled, reason: 'withdrawals' } })
  return [
    {
      what: 'a key revoked',
      async prepare(n) {
        const { id, isGiven } = await keyOf(`revoked ${n}`)
        return { isGiven, withdraw: () => first.request(`/admin/v1/keys/${id}`, { method: 'DELETE' }) }
      },
    },
    {
      what: 'a key rotated, its old secret',
      async prepare(n) {
        const { id, isGiven } = await keyOf(`rotated ${n}`)
        return { isGiven, withdraw: () => first.request(`/admin/v1/keys/${id}/rotate`, { method: 'POST' }) }
      },
    },
    {
      what: 'a scope taken from a key',
      async prepare(n) {
        const { id, isGiven } = await keyOf(`narrowed ${n}`, ['usage:read'])
        const change = { method: 'PATCH', body: { scopes: ['usage:read'] } }
        return { isGiven, withdraw: () => first.request(`/admin/v1/keys/${id}`, change) }
      },
    },
    {
      what: 'a provider killed',
      async prepare() {
        const revived = await kill(false)
        if (revived.headers.has('X-Gateway-Revision')) await folded(revived)
        const body = { model: 'sandbox-echo', messages: [{ role: 'user', content: 'Hello' }] }
        const isGiven = async (gateway: GatewayProcess) => {
          const answer = await gateway.request('/v1/chat/completions', { key: INFERENCE_KEY, body })
          await answer.arrayBuffer()
          return answer.ok
        }
        return { isGiven, withdraw: () => kill(true) }
      },
    },
  ]
}

interface Tally {
  readonly fromSendMs: number[]
  /** Began after the answer and were given all the same. */
  acceptedAfter: number
  /** Of those, how many came after an answer that reported all instances as up to date. */
  acceptedAfterAll: number
  appliedByAll: number
}

/** Repeats the request until it is refused, or the withdrawal is called off. */
const hammer = async (
  gateway: GatewayProcess,
  { isGiven }: Withdrawn,
  answeredAt: () => number | null,
  isOver: () => boolean,
) => {
  let accepted = 0
  for (;;) {
    if (isOver()) return accepted
    const startedAt = performance.now()
    if (!(await isGiven(gateway))) return accepted
    const since = answeredAt()
    if (since !== null && startedAt > since) accepted++
  }
}

const once = async (withdrawn: Withdrawn, others: readonly GatewayProcess[], tally: Tally): Promise<void> => {
  for (const gateway of others) {
    if (!(await withdrawn.isGiven(gateway))) throw new Error('what is to be withdrawn was not given before')
  }
  let answeredAt: number | null = null
  let failed = false
  let sentAt = performance.now()
  const hammers = others.map(async (gateway) => {
    const accepted = await hammer(
      gateway,
      withdrawn,
      () => answeredAt,
      () => failed,
    )
    tally.fromSendMs.push(performance.now() - sentAt)
    return accepted
  })
  await Bun.sleep(5) // under way
  sentAt = performance.now()
  const answer = await withdrawn.withdraw()
  answeredAt = performance.now()
  failed = !answer.ok
  if (failed) {
    await Promise.allSettled(hammers)
    throw new Error(`withdrawing was answered with ${answer.status}: ${await answer.text()}`)
  }
  const all = others.length + 1
  const byAll = answer.headers.get('X-Gateway-Applied-By') === `${all}/${all}`
  if (byAll) tally.appliedByAll++
  for (const accepted of await Promise.all(hammers)) {
    tally.acceptedAfter += accepted
    if (byAll) tally.acceptedAfterAll += accepted
  }
}

/** Clients that request another model of another provider until they are stopped. */
const startLoad = async ({ first, others }: ReturnType<typeof world>, what: string, clients: number) => {
  const name = `load-${what.replaceAll(/\W+/g, '-')}`
  const provider = await first.request('/admin/v1/providers', { body: { name, kind: 'sandbox' } })
  const { id } = (await provider.json()) as { id: string }
  const row = { name, provider_id: id, upstream_model: 'sandbox-echo' }
  const model = await first.request('/admin/v1/models', { body: row })
  const headers = { 'X-Gateway-Min-Revision': model.headers.get('X-Gateway-Revision')! }
  const body = { model: name, messages: [{ role: 'user', content: 'Hello' }] }
  let isOver = false
  let answered = 0
  const ask = async (gateway: GatewayProcess) => {
    while (!isOver) {
      const answer = await gateway.request('/v1/chat/completions', { body, headers })
      const said = await answer.text()
      if (!answer.ok) throw new Error(`the load was answered with ${answer.status}: ${said}`)
      answered++
    }
  }
  const asking = Promise.all(others.flatMap((gateway) => Array.from({ length: clients }, () => ask(gateway))))
  return {
    answered: () => answered,
    async stop() {
      isOver = true
      await asking
    },
  }
}

export interface Options {
  /** Of each kind. */
  readonly times: number
  /** Clients that load each of the two others. */
  readonly load: number
  /** So many before, which are not counted. */
  readonly warm: number
  /** p99 from sending it to the refusal elsewhere; null: whatever it takes, and to however many it got in time. */
  readonly aimMs: number | null
}

/** Of one kind. */
const figureOf = async (
  { what, prepare }: Kind,
  here: ReturnType<typeof world>,
  { times, load, warm, aimMs }: Options,
): Promise<Figure> => {
  const tally = (): Tally => ({ fromSendMs: [], acceptedAfter: 0, acceptedAfterAll: 0, appliedByAll: 0 })
  const counted = tally()
  const loaded = load === 0 ? null : await startLoad(here, what, load)
  for (let n = 0; n < warm; n++) await once(await prepare(-1 - n), here.others, tally())
  const [before, startedAt] = [loaded?.answered() ?? 0, performance.now()]
  for (let n = 0; n < times; n++) await once(await prepare(n), here.others, counted)
  const perSecond = ((loaded?.answered() ?? 0) - before) / ((performance.now() - startedAt) / 1_000)
  await loaded?.stop()
  const { p50, p99, max } = percentiles(counted.fromSendMs)
  const beside = load === 0 ? '' : `, beside ${perSecond.toFixed(0)} chat completions/s`
  const aim = aimMs === null ? '' : ` (aim ${aimMs})`
  const figure =
    `accepted elsewhere after the answer ${counted.acceptedAfter}; from sending it to the ` +
    `refusal elsewhere ms p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)}${aim}, max ` +
    `${max.toFixed(1)}; applied by 3/3 ${counted.appliedByAll} of ${times}`
  const inTime = aimMs === null || (p99 < aimMs && counted.acceptedAfter === 0 && counted.appliedByAll === times)
  const good = counted.acceptedAfterAll === 0 && inTime
  return { row: 'C8', what: `${what}, asked for on two others${beside}`, figure, n: times, good }
}

/**
 * Keys revoked while one of the others is stopped (SIGSTOP): no answer may claim that the stopped instance has applied
 * the revocation.
 */
const whileOneIsStopped = async (
  { first, others, keyOf }: ReturnType<typeof world>,
  times: number,
): Promise<Figure> => {
  const deaf = others.at(-1)!
  let claimed = 0
  let accepted = 0
  for (let n = 0; n < times; n++) {
    const { id, isGiven } = await keyOf(`revoked while one is stopped ${n}`)
    if (!(await isGiven(deaf))) throw new Error('what is to be withdrawn was not given before')
    process.kill(deaf.pid, 'SIGSTOP')
    const answer = await first.request(`/admin/v1/keys/${id}`, { method: 'DELETE' })
    process.kill(deaf.pid, 'SIGCONT')
    const all = others.length + 1
    if (!answer.ok || answer.headers.get('X-Gateway-Applied-By') === `${all}/${all}`) claimed++
    const headers = { 'X-Gateway-Min-Revision': answer.headers.get('X-Gateway-Revision')! }
    await eventually('it has folded it', async () => (await deaf.request('/v1/models', { headers })).ok, {
      everyMs: 50,
    })
    if (await isGiven(deaf)) accepted++
  }
  const figure = `answers that said it of all ${claimed}; accepted by it once it went on and had folded it ${accepted}`
  const what = 'a key revoked while one of three instances is stopped (SIGSTOP)'
  return { row: 'C8', what, figure, n: times, good: claimed === 0 && accepted === 0 }
}

/** On a broker of its own, or the one that is given. */
export const withdrawals = async (options: Options, given: Kafka | null = null): Promise<readonly Figure[]> => {
  const folder = mkdtempSync(join(tmpdir(), 'gatelog-withdrawals-'))
  const kafka = given ?? (await startKafka({ dataDir: join(folder, 'kafka') }))
  const settings = { ...kafkaSettings(kafka.bootstrap), ...NO_READ_MODELS }
  const gateways: GatewayProcess[] = []
  try {
    await initTopics(settings, folder)
    for (let n = 0; n < 3; n++) gateways.push(startGateway({ settings }))
    await Promise.all(gateways.map((gateway) => gateway.until('serving', 60_000)))
    const tenant = await gateways[0]!.request('/admin/v1/tenants', { body: { slug: 'withdrawn', name: 'Withdrawn' } })
    const here = world(gateways, ((await tenant.json()) as { id: string }).id)
    const listed = await here.first.request('/admin/v1/providers')
    const { providers } = (await listed.json()) as { providers: { id: string }[] }
    const figures: Figure[] = []
    for (const kind of kindsOf(here, providers[0]!.id)) figures.push(await figureOf(kind, here, options))
    figures.push(await whileOneIsStopped(here, Math.min(options.times, 20)))
    const revival = { body: { kill: false, reason: 'withdrawals' } }
    await here.first.request(`/admin/v1/providers/${providers[0]!.id}/kill`, revival) // for this broker's next user
    return figures
  } finally {
    for (const gateway of gateways) await gateway.remove()
    if (given === null) await kafka.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) {
  const [times, load] = [numberArgument('times', 200), numberArgument('load', 0)]
  conclude(await withdrawals({ times, load, warm: WARM, aimMs: AIM_MS }))
}
