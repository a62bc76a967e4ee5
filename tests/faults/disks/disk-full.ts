// R16: another process fills the disk of data.dir (a tmpfs of 256 MB) under load, then frees it: `bun
// tests/faults/disks/disk-full.ts [--rounds 3]`. Needs root.
// Every answer that a client holds complete is recorded. Admission stops with a retryable error and opens again by
// itself.
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { codeOf } from '../../../src/lib/process/error-code.ts'
import { startGateway } from '../../services/gateway.ts'
import { sharedPostgres } from '../../services/postgres.ts'
import { conclude, type Figure, numberArgument } from '../control/figures.ts'
import { compare, settledRows, startOracle } from '../oracle.ts'
import { failuresText, WITHOUT_LOAD_GATE } from '../rig.ts'
import { run, withOwnMounts } from './own-disk.ts'

await withOwnMounts()
const ROUNDS = numberArgument('rounds', 3)
/** Room for what is served between the rounds: on a quick machine 64 MB were full of outcomes by the third. */
const DISK_MB = 256
const FULL_MS = 6_000
const HEALS_WITHIN_MS = 15_000

/** Takes the free space, or as much of it as no other writer takes first. */
const fill = (folder: string, path: string): void => {
  const { bavail, bsize } = statfsSync(folder)
  try {
    if (bavail > 0) writeFileSync(path, Buffer.alloc(bavail * bsize))
  } catch (error) {
    if (codeOf(error) !== 'ENOSPC') throw error
  }
}

const disk = mkdtempSync(join(tmpdir(), 'gatelog-full-'))
run('mount', '-t', 'tmpfs', '-o', `size=${DISK_MB}m`, 'tmpfs', disk)
const measured = async (): Promise<Figure> => {
  const database = await sharedPostgres()
  const since = new Date(Date.now() - 1_000)
  const gateway = startGateway({
    settings: { ...WITHOUT_LOAD_GATE, data: { dir: join(disk, 'data') }, database: { url: database.url } },
  })
  await gateway.until('ready', 60_000)
  const oracle = startOracle(() => gateway, 8, 'sandbox-echo')
  const filler = join(disk, 'filler')
  const recoveredMs: number[] = []
  let servedWhileFull = 0
  for (let round = 0; round < ROUNDS; round++) {
    await oracle.answered(500)
    const fullFromMs = performance.now()
    for (let part = 0; performance.now() - fullFromMs < FULL_MS; part++) {
      fill(disk, `${filler}-${part}`)
      await Bun.sleep(20)
    }
    const complete = oracle.complete.size
    await Bun.sleep(500)
    servedWhileFull += oracle.complete.size - complete
    for (const name of new Bun.Glob('filler-*').scanSync({ cwd: disk })) rmSync(join(disk, name))
    const freedMs = performance.now()
    await oracle.answered(20, HEALS_WITHIN_MS)
    recoveredMs.push(performance.now() - freedMs)
  }
  await oracle.answered(200)
  await oracle.stop()
  const rows = await settledRows(gateway, since, oracle.complete.size)
  const { lost, doubled, phantom, otherTokens } = compare(oracle, rows)
  await gateway.remove()
  await database.remove()
  const slowestMs = Math.max(...recoveredMs)
  return {
    row: 'R16',
    what: `a disk of ${DISK_MB} MB filled by somebody else for ${FULL_MS / 1_000} s, ${ROUNDS} times`,
    figure:
      `lost ${lost} of ${oracle.complete.size}, doubled ${doubled}, never sent ${phantom}, other tokens ` +
      `${otherTokens}; served in the last half second of each ${servedWhileFull}; ` +
      `serves again ${slowestMs.toFixed(0)} ms after at most; clients saw: ${failuresText(oracle)}`,
    n: oracle.complete.size,
    good: lost + doubled + phantom + otherTokens === 0 && oracle.complete.size > 0 && slowestMs < HEALS_WITHIN_MS,
  }
}

const figure = await measured().finally(() => {
  run('umount', '-l', disk)
  rmSync(disk, { recursive: true, force: true })
})
conclude([figure])
