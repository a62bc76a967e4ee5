// The master key is rotated while writers seal secrets, and the rotation is killed at random points. Then an operator
// and a tenant's captured content are erased, and every disk and every copy of the log together open nothing of them.
// `bun tests/faults/control/keys/keys.ts [--kills 30]`: a real gateway, embedded.
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { OperatorRow } from '../../../../src/domain/access/operator.ts'
import { readMasterKeys } from '../../../../src/lib/crypto/master-key.ts'
import { embeddedLog } from '../../../../src/log/embedded/log.ts'
import { createContentKeys } from '../../../../src/state/data-keys/content-keys.ts'
import { openDataKeys } from '../../../../src/state/data-keys/data-keys.ts'
import type { DataKeyStore } from '../../../../src/state/data-keys/store.ts'
import { type ChainFold, foldAgain } from '../../../../src/state/fold.ts'
import { besideGateway, startCommand } from '../../../services/command.ts'
import { type GatewayProcess, startGateway } from '../../../services/gateway.ts'
import { quiet } from '../../../state/support.ts'
import { conclude, type Figure, numberArgument } from '../figures.ts'
import { breakIn, type Sealed } from './key-material.ts'

const PROVIDERS = 100
const SAMPLES = 20
/** Of so many random moments some must have left keys to wrap, or nothing was tried. */
const ENOUGH = 10
const PERSON = { username: 'Ada Lovelace', password: 'correct horse battery' }

const dataOf = ({ folder }: GatewayProcess): string => join(folder, 'data')
const keyFileOf = (gateway: GatewayProcess): string => join(dataOf(gateway), 'master.key')
const mastersOf = (gateway: GatewayProcess) => readMasterKeys(keyFileOf(gateway))!

const keys = (gateway: GatewayProcess, action: string) =>
  startCommand([...(action === 'start' ? [action] : ['keys', action])], besideGateway(gateway.folder), {
    output: 'ignore',
    errors: 'pipe',
  })

const call = async <Answer>(gateway: GatewayProcess, method: string, path: string, body?: unknown): Promise<Answer> => {
  const answer = await gateway.request(`/admin/v1${path}`, { method, body })
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
  return (await answer.json()) as Answer
}

/** The state and the data keys as another process reads them from the same folder. */
const beside = async <Result>(
  gateway: GatewayProcess,
  use: (fold: ChainFold, dataKeys: DataKeyStore) => Promise<Result> | Result,
): Promise<Result> => {
  const log = embeddedLog({ dataDir: dataOf(gateway), nowMs: Date.now })
  const masterKeys = () => mastersOf(gateway)
  const shared = { log, instance: 'beside', dataDir: null, nowMs: Date.now, diagnostics: quiet }
  const dataKeys = await openDataKeys({ ...shared, masterKeys })
  await dataKeys.ready()
  const fold = await foldAgain(log, dataKeys.installation()!.decisionMac, new AbortController().signal)
  try {
    return await use(fold, dataKeys)
  } finally {
    await dataKeys.close()
    await log.close()
  }
}

/** Replaces secrets until it is stopped. For each provider the last acknowledged secret must open. */
const writer = (gateway: GatewayProcess, ids: readonly string[], secrets: Map<string, string>) => {
  let stopped = false
  let written = 0
  const work = (async () => {
    while (!stopped) {
      const id = ids[Math.floor(Math.random() * ids.length)]!
      const secret = `secret ${++written} of ${id}`
      await call(gateway, 'PUT', `/providers/${id}/credential`, { secret })
      secrets.set(id, secret)
    }
  })()
  return async () => {
    stopped = true
    await work
    return written
  }
}

/** Starts a rotation and kills it a random moment after it began to wrap. Answers how many keys were left to wrap. */
const killedRotation = async (gateway: GatewayProcess): Promise<number> => {
  const child = keys(gateway, 'rotate')
  while (mastersOf(gateway).length === 1 && child.exitCode === null) await Bun.sleep(1)
  await Bun.sleep(Math.random() * 120)
  child.kill('SIGKILL')
  await child.exited
  return beside(gateway, (_, dataKeys) => {
    const census = [...dataKeys.census().values()]
    return census.length === 1 ? 0 : Math.min(...census)
  })
}

const finish = async (gateway: GatewayProcess): Promise<void> => {
  for (const action of ['rotate', 'retire']) {
    const child = keys(gateway, action)
    if ((await child.exited) !== 0) throw new Error(`keys ${action}: ${await new Response(child.stderr).text()}`)
  }
}

const rotations = async (gateway: GatewayProcess, kills: number): Promise<Figure> => {
  const secrets = new Map<string, string>()
  const ids: string[] = []
  for (let n = 0; n < PROVIDERS; n++) {
    const body = { name: `p${n}`, kind: 'openai_compatible', base_url: 'http://127.0.0.1:1/v1' }
    ids.push((await call<{ id: string }>(gateway, 'POST', '/providers', body)).id)
    await call(gateway, 'PUT', `/providers/${ids[n]}/credential`, { secret: `first of ${ids[n]}` })
    secrets.set(ids[n]!, `first of ${ids[n]}`)
  }
  const original = readFileSync(keyFileOf(gateway))
  const half = PROVIDERS / 2
  const stops = [ids.slice(0, half), ids.slice(half)].map((some) => writer(gateway, some, secrets))
  let midway = 0
  for (let n = 0; n < kills; n++) {
    if ((await killedRotation(gateway)) > 0) midway++
    await finish(gateway)
  }
  const written = (await Promise.all(stops.map((stop) => stop()))).reduce((sum, each) => sum + each, 0)
  await gateway.end()
  const lost = await beside(gateway, ({ state }, dataKeys) => {
    const opened = ({ id, credential }: { id: string; credential: { key_id: string; sealed: string } | null }) =>
      credential === null ? null : dataKeys.open(id, credential.key_id, credential.sealed)
    return ids.filter((id) => opened(state.table('providers').get(id)!) !== secrets.get(id)).length
  })
  const current = readFileSync(keyFileOf(gateway))
  writeFileSync(keyFileOf(gateway), original, { mode: 0o600 })
  const old = keys(gateway, 'start')
  const [code, said] = [await old.exited, await new Response(old.stderr).text()]
  writeFileSync(keyFileOf(gateway), current, { mode: 0o600 })
  const refused = code === 1 && /is wrapped by the master key \w{16}, this instance has \w{16}/.test(said)
  gateway.start()
  await gateway.until('serving')
  const login = await gateway.request('/admin/v1/auth/login', { body: PERSON, key: null })
  const figure =
    `${midway} of ${kills} killed with keys left to wrap; ${written} secrets written meanwhile, ${lost} ` +
    `of ${PROVIDERS} lost; the first master key alone is ` +
    `${refused ? 'refused by name' : 'NOT REFUSED'}; the operator ` +
    `${login.ok ? 'signs in' : 'CANNOT SIGN IN'}`
  const what = 'the master key rotated under two writers, each rotation killed and run again'
  return {
    row: 'keys',
    what,
    figure,
    n: kills,
    good: lost === 0 && refused && login.ok && (midway > 0 || kills < ENOUGH),
  }
}

/** Seals samples by the way that capture takes; they lie in the data folder like a store of captured content. */
const capture = (gateway: GatewayProcess, tenantId: string): Promise<readonly Sealed[]> =>
  beside(gateway, async ({ state }, dataKeys) => {
    const live = { control: state }
    const content = createContentKeys({ live, dataKeys, nowMs: Date.now, diagnostics: quiet })
    const samples: Sealed[] = []
    for (let n = 0; n < SAMPLES; n++) {
      const { keyId, sealed } = await content.seal(tenantId, `req_${n}`, `prompt ${n}`)
      samples.push({ keyId, about: JSON.stringify([tenantId, `req_${n}`]), sealed })
    }
    writeFileSync(join(dataOf(gateway), 'captured.json'), JSON.stringify(samples))
    return samples
  })

const operatorOf = (gateway: GatewayProcess): Promise<OperatorRow> =>
  beside(gateway, ({ state }) => [...state.table('operators').rows()][0]![1])

const erasures = async (gateway: GatewayProcess): Promise<readonly Figure[]> => {
  const tenant = await call<{ id: string }>(gateway, 'POST', '/tenants', { slug: 'captured', name: 'Captured' })
  const person = await operatorOf(gateway)
  const samples = [
    ...(await capture(gateway, tenant.id)),
    { keyId: person.key_id, about: person.id, sealed: person.sealed },
  ]
  // A backup of the log, and one with the topic of keys, which is to be kept apart.
  const [logCopy, fullCopy] = [join(gateway.folder, 'copy-of-the-log'), join(gateway.folder, 'copy-of-everything')]
  const isKeys = (path: string) => /gateway\.keys\.v1|data-keys\.json|master\.key/.test(basename(path))
  const copied = (path: string) => !/postgres|lock\.db/.test(path)
  mkdirSync(fullCopy)
  cpSync(dataOf(gateway), logCopy, { recursive: true, filter: (path) => copied(path) && !isKeys(path) })
  cpSync(dataOf(gateway), fullCopy, { recursive: true, filter: copied })
  const before = breakIn([dataOf(gateway), logCopy], mastersOf(gateway), samples)

  await call(gateway, 'DELETE', `/tenants/${tenant.id}/content`)
  await call(gateway, 'DELETE', `/operators/${person.id}`)
  await gateway.end() // the cache of wrapped keys is written, at the latest now
  const after = breakIn([dataOf(gateway), logCopy], mastersOf(gateway), samples)
  const withKeys = breakIn([dataOf(gateway), fullCopy], mastersOf(gateway), samples)
  gateway.start()
  await gateway.until('serving')
  await finish(gateway)
  await gateway.end()
  const rotated = breakIn([dataOf(gateway), fullCopy], mastersOf(gateway), samples)
  const n = samples.length
  const tried = `${after.keys} data keys of ${after.wraps} wraps in ${after.files} files`
  return [
    {
      row: 'erasure',
      what:
        'an operator and captured content erased; every file of the data folder and ' +
        'a copy of the log from before searched for keys',
      figure: `opened before ${before.opened} of ${n}, after ${after.opened} (tried ${tried})`,
      n,
      good: before.opened === n && after.opened === 0,
    },
    {
      row: 'erasure',
      what: 'the same with a copy of the keys from before, and after a further rotation whose old master key is destroyed',
      figure: `opened with the master key of then ${withKeys.opened} of ${n}, after the rotation ${rotated.opened}`,
      n,
      good: withKeys.opened === n && rotated.opened === 0,
    },
  ]
}

/** A gateway of its own, with an operator. */
export const keyFigures = async (kills: number): Promise<readonly Figure[]> => {
  const gateway = startGateway({ settings: { worker: { enabled: false } } })
  try {
    await gateway.until('serving')
    const setup = { ...PERSON, confirm: PERSON.password }
    const made = await gateway.request('/admin/v1/auth/setup', { body: setup, key: null })
    if (made.status !== 201) throw new Error(`set-up: ${made.status}`)
    return [await rotations(gateway, kills), ...(await erasures(gateway))]
  } finally {
    await gateway.remove()
  }
}

if (import.meta.main) conclude(await keyFigures(numberArgument('kills', 30)))
