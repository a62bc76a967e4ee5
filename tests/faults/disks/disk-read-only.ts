// R16: the disk of data.dir turns read-only under load, as ext4 does when it detects damage: `bun
// tests/faults/disks/disk-read-only.ts [--rounds 5]`. Needs root.
// Such a disk stays read-only until it is unmounted: the gateway is stopped, the disk is checked and mounted again.
// Every answer that a client holds complete is recorded.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { type GatewayProcess, startGateway } from '../../services/gateway.ts'
import { sharedPostgres } from '../../services/postgres.ts'
import { conclude, type Figure, numberArgument } from '../control/figures.ts'
import { compare, type Oracle, settledRows, startOracle } from '../oracle.ts'
import { failuresText, WITHOUT_LOAD_GATE } from '../rig.ts'
import { run, withOwnMounts } from './own-disk.ts'

await withOwnMounts()
const ROUNDS = numberArgument('rounds', 5)
const DISK_MB = 256
const READ_ONLY_MS = 4_000
/** What was under way when it happened may still end. */
const SETTLED_MS = 2_000
const ENDS_WITHIN_MS = 20_000

const folder = mkdtempSync(join(tmpdir(), 'gatelog-read-only-'))
const image = join(folder, 'image')
const disk = join(folder, 'disk')
mkdirSync(disk)
run('truncate', '-s', `${DISK_MB}M`, image)
// No journal: an aborted journal may report a sync that it never made (Linux 6.18 does), and then the disk has lied.
run('mkfs.ext4', '-q', '-O', '^has_journal', image)
const mount = () => run('mount', '-o', 'loop,errors=remount-ro', image, disk)
const unmount = () => run('umount', disk)

/** Makes the file system treat itself as damaged. */
const damage = (): void => {
  const found = Bun.spawnSync(['findmnt', '-n', '-o', 'SOURCE', disk]).stdout.toString().trim()
  writeFileSync(`/sys/fs/ext4/${basename(found)}/trigger_fs_error`, '1')
}

/** Checked, as a machine does before it mounts what was damaged; 1: it mended something. */
const mend = (): void => {
  const { exitCode, stdout } = Bun.spawnSync(['e2fsck', '-f', '-y', image])
  if (exitCode > 1) throw new Error(`e2fsck ended with ${exitCode}: ${stdout.toString()}`)
}

interface Round {
  readonly servedReadOnly: number
  readonly refused: number
  readonly alive: boolean
  readonly code: number
  readonly endedMs: number
  readonly servingMs: number
}

const failedOf = (oracle: Oracle, what: RegExp): number =>
  [...oracle.failures].filter(([seen]) => what.test(seen)).reduce((sum, [, count]) => sum + count, 0)

const round = async (gateway: GatewayProcess, oracle: Oracle): Promise<Round> => {
  await oracle.answered(500)
  damage()
  await Bun.sleep(SETTLED_MS)
  const [complete, refusedBefore] = [oracle.complete.size, failedOf(oracle, /^status/)]
  await Bun.sleep(READ_ONLY_MS - SETTLED_MS)
  const servedReadOnly = oracle.complete.size - complete
  const refused = failedOf(oracle, /^status/) - refusedBefore
  const health = await gateway.request('/health', { signal: AbortSignal.timeout(2_000) }).catch(() => null)
  await health?.text()
  const stoppedMs = performance.now()
  const killer = setTimeout(() => void gateway.end('SIGKILL'), ENDS_WITHIN_MS)
  const code = await gateway.end()
  clearTimeout(killer)
  const endedMs = performance.now() - stoppedMs
  unmount()
  mend()
  mount()
  gateway.start()
  const servingMs = await gateway.until('serving', 60_000)
  return { servedReadOnly, refused, alive: health?.ok === true, code, endedMs, servingMs }
}

const measured = async (): Promise<Figure> => {
  const database = await sharedPostgres()
  const since = new Date(Date.now() - 1_000)
  const gateway = startGateway({
    settings: {
      ...WITHOUT_LOAD_GATE,
      data: { dir: join(disk, 'data') },
      // What is in the page cache of a damaged disk is lost: only what was synced counts.
      log: { durability: 'host' },
      database: { url: database.url },
    },
  })
  await gateway.until('ready', 60_000)
  const oracle = startOracle(() => gateway, 8, 'sandbox-echo', 5)
  const rounds: Round[] = []
  for (let i = 0; i < ROUNDS; i++) rounds.push(await round(gateway, oracle))
  await gateway.until('ready', 60_000)
  await oracle.answered(200)
  await oracle.stop()
  const rows = await settledRows(gateway, since, oracle.complete.size)
  const { lost, doubled, phantom, otherTokens } = compare(oracle, rows)
  if (process.env.FAULT_OUTPUT !== undefined) console.error(gateway.output())
  await gateway.remove()
  await database.remove()
  const served = rounds.reduce((sum, each) => sum + each.servedReadOnly, 0)
  const alive = rounds.filter((each) => each.alive).length
  const most = (of: (each: Round) => number): number => Math.max(...rounds.map(of))
  return {
    row: 'R16',
    what:
      `a disk that turns read-only under load for ${READ_ONLY_MS / 1_000} s (ext4 after an error, ` +
      `\`log.durability: host\`), then SIGTERM, checked and mounted again, ${ROUNDS} times`,
    figure:
      `lost ${lost} of ${oracle.complete.size}, doubled ${doubled}, never sent ${phantom}, other tokens ` +
      `${otherTokens}; once read-only served ${served}, refused ` +
      `${rounds.reduce((sum, each) => sum + each.refused, 0)}; ` +
      `alive meanwhile ${alive} of ${ROUNDS}, exit codes ` +
      `${[...new Set(rounds.map(({ code }) => code))].join(', ')} after ` +
      `${most((each) => each.endedMs).toFixed(0)} ms at most; ` +
      `serves again ${most((each) => each.servingMs).toFixed(0)} ms after its ` +
      `start at most; clients saw: ${failuresText(oracle)}`,
    n: oracle.complete.size,
    good:
      lost + doubled + phantom + otherTokens + served === 0 &&
      oracle.complete.size > 0 &&
      alive === ROUNDS &&
      most((each) => each.endedMs) < ENDS_WITHIN_MS,
  }
}

mount()
const figure = await measured().finally(() => {
  unmount()
  rmSync(folder, { recursive: true, force: true })
})
conclude([figure])
