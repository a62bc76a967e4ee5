// R17, R19: a disk that fails, or is slow, under a real gateway with `log.durability: host`.
// `bun tests/faults/disks/disk-errors.ts [--seconds 15]`.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startGateway } from '../../services/gateway.ts'
import { sharedPostgres } from '../../services/postgres.ts'
import { conclude, type Figure, numberArgument } from '../control/figures.ts'
import { compare, percentiles, settledRows, startOracle } from '../oracle.ts'
import { failedOf, failuresText, WITHOUT_LOAD_GATE } from '../rig.ts'
import { strainText, watchStrain } from '../watch.ts'

const SECONDS = numberArgument('seconds', 15)
const folder = mkdtempSync(join(tmpdir(), 'gatelog-disk-errors-'))
const path = join(folder, 'fault')
writeFileSync(path, '')
const database = await sharedPostgres()
const gateway = startGateway({
  // Of the sources: the preload puts itself into one of their modules, of which a bundle has another.
  root: join(import.meta.dir, '../../..'),
  preload: [join(import.meta.dir, '../preloads/faulty-disk.ts')],
  env: { FAULT_DISK: path },
  settings: { ...WITHOUT_LOAD_GATE, log: { durability: 'host' }, database: { url: database.url } },
})
await gateway.until('ready', 60_000)

const didOf = (what: string): number =>
  existsSync(`${path}.did`)
    ? readFileSync(`${path}.did`, 'utf8')
        .split('\n')
        .filter((line) => line === what).length
    : 0

const underFault = async (row: string, fault: string, what: string, killsAtEnd: boolean): Promise<Figure> => {
  const since = new Date(Date.now() - 1_000)
  const oracle = startOracle(() => gateway, 8, 'sandbox-echo')
  await oracle.answered(300)
  const strain = watchStrain(gateway)
  writeFileSync(path, fault)
  await Bun.sleep(SECONDS * 1_000)
  const seen = await strain.stop()
  // What was not synced would be lost with the machine; what was not written is lost with the process.
  if (killsAtEnd) await gateway.end('SIGKILL')
  writeFileSync(path, '')
  if (killsAtEnd) gateway.start()
  await gateway.until('ready', 60_000 + SECONDS * 1_000)
  await oracle.answered(300)
  await oracle.stop()
  const rows = await settledRows(gateway, since, oracle.complete.size)
  const { lost, doubled, phantom, otherTokens } = compare(oracle, rows)
  const first = percentiles([...oracle.seen.values()].map(({ sentMs, firstByteMs }) => firstByteMs - sentMs))
  const again = didOf('synced again')
  return {
    row,
    what: `${what}, ${SECONDS} s${killsAtEnd ? ', then `kill -9`' : ''}`,
    figure:
      `lost ${lost} of ${oracle.complete.size}, doubled ${doubled}, never sent ${phantom}, other tokens ` +
      `${otherTokens}; faults ${didOf(fault)}, files synced again after one ${again}; ` +
      `failed ${failedOf(oracle)} (${failuresText(oracle)}); first byte p50 ` +
      `${first.p50.toFixed(0)}, p99 ${first.p99.toFixed(0)} ms; ${strainText(seen)}`,
    n: oracle.complete.size,
    good:
      lost + doubled + phantom + otherTokens + again === 0 &&
      oracle.complete.size > 0 &&
      didOf(fault) > 0 &&
      seen.loopDelayMs > 0,
  }
}

const figures = [
  await underFault('R17', 'sync-eio', 'each second fdatasync fails with EIO', true),
  await underFault('R17', 'short', 'every write takes a third of what it is given', true),
  await underFault('R19', 'slow', 'every write of the spool takes 200 ms', false),
]
await gateway.remove()
await database.remove()
rmSync(folder, { recursive: true, force: true })
conclude(figures)
