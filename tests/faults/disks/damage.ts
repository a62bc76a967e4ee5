// R18: bits are flipped and tails cut in the files that a stopped gateway left: segments of the spool, snapshot,
// watermarks, caches. `bun tests/faults/disks/damage.ts [--rounds 100]`.
// The gateway starts every time, with the state of the log. The log itself (`log.sqlite`) is not touched: the gateway
// refuses a damaged log, and there is no other copy of it here.
import { cpSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startGateway } from '../../services/gateway.ts'
import { conclude, type Figure, numberArgument } from '../control/figures.ts'
import { startTenantWriter } from '../failpoints/writer.ts'
import { startOracle } from '../oracle.ts'

const ROUNDS = numberArgument('rounds', 100)
/** Truth, keys and locks: not what this row is about. */
const UNTOUCHED = /sqlite|master|(^|\/)lock|instance$|\.pid$|postgres/

const gateway = startGateway({ settings: { worker: { enabled: false } } })
await gateway.until('serving', 60_000)
const oracle = startOracle(() => gateway, 4, 'sandbox-echo')
const writer = startTenantWriter(gateway, 'damage', 20)
await oracle.answered(3_000)
await oracle.stop()
await writer.stop()
await gateway.end()
const data = join(gateway.folder, 'data')
const kept = join(gateway.folder, 'kept')
cpSync(data, kept, { recursive: true })
const files = (readdirSync(kept, { recursive: true }) as string[]).filter((name) => {
  const stat = statSync(join(kept, name))
  return stat.isFile() && stat.size > 0 && !UNTOUCHED.test(name)
})

const damage = (path: string): string => {
  const { size } = statSync(path)
  if (Math.random() < 0.3) {
    truncateSync(path, Math.floor(Math.random() * size))
    return 'cut'
  }
  const bytes = readFileSync(path)
  for (let flip = 0; flip < 3; flip++) {
    const at = Math.floor(Math.random() * size)
    bytes[at] = bytes[at]! ^ (1 << Math.floor(Math.random() * 8))
  }
  writeFileSync(path, bytes)
  return 'flipped'
}

const touched = new Map<string, number>()
const notStarted: string[] = []
let wrongState = 0
for (let round = 0; round < ROUNDS; round++) {
  const name = files[round % files.length]!
  rmSync(data, { recursive: true, force: true })
  cpSync(kept, data, { recursive: true })
  const how = `${damage(join(data, name))} ${name.replace(/\d{10}\.segment/, 'segment')}`
  touched.set(how, (touched.get(how) ?? 0) + 1)
  gateway.start()
  try {
    await gateway.until('serving', 30_000)
    const { lost, doubled } = await writer.compare()
    if (lost + doubled > 0) wrongState++
  } catch (error) {
    notStarted.push(`${how}: ${String(error).split('\n').slice(-1)[0]!.slice(0, 120)}`)
  }
  await gateway.end('SIGKILL')
}
const what = [...touched].map(([how, count]) => `${how} ${count}`).join(', ')
const figure: Figure = {
  row: 'R18',
  what: `one file each time damaged: ${what}`,
  figure:
    `started ${ROUNDS - notStarted.length} of ${ROUNDS}; wrong state ${wrongState} (${writer.told.size} tenants ` +
    `compared)${notStarted.length === 0 ? '' : `; not: ${[...new Set(notStarted)].slice(0, 5).join('; ')}`}`,
  n: ROUNDS,
  good: wrongState === 0 && notStarted.length === 0,
}
await gateway.remove()
conclude([figure])
