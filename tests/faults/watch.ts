// What a row observes in the gateway's process while a fault lasts: memory, delay of the event loop, sockets and
// descriptors.
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { codeOf } from '../../src/lib/process/error-code.ts'
import type { GatewayProcess } from '../services/gateway.ts'
import { watchPulse } from './rig.ts'

const EVERY_MS = 100

const linkOf = (path: string): string => {
  try {
    return readlinkSync(path)
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
    return '' // closed meanwhile
  }
}

const descriptorsOf = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length

const portOf = (address: string): number => Number.parseInt(address.split(':')[1]!, 16)

/** Its TCP connections, opening ones too, by the ports of both ends. */
const connectionsOf = (pid: number): { readonly local: number; readonly remote: number }[] => {
  const own = new Set(readdirSync(`/proc/${pid}/fd`).map((name) => linkOf(`/proc/${pid}/fd/${name}`)))
  const lines = ['tcp', 'tcp6'].flatMap((table) => readFileSync(`/proc/net/${table}`, 'utf8').split('\n').slice(1))
  return lines
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , , , , , , , inode]) => own.has(`socket:[${inode}]`))
    .map(([, local, remote]) => ({ local: portOf(local!), remote: portOf(remote!) }))
}

/** Connections that the process holds to those ports. */
export const socketsTo = (pid: number, ports: ReadonlySet<number>): number =>
  connectionsOf(pid).filter(({ remote }) => ports.has(remote)).length

/** Without the connections of its clients: those are theirs to close. */
export const ownDescriptors = ({ pid, url }: GatewayProcess): number => {
  const port = Number(new URL(url).port)
  return descriptorsOf(pid) - connectionsOf(pid).filter(({ local, remote }) => local === port && remote !== 0).length
}

const mbIn = (pid: number, field: 'VmRSS' | 'VmHWM'): number =>
  Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1_024

/** The kernel keeps the peak; this begins it anew. */
const forgetPeak = (pid: number): void => writeFileSync(`/proc/${pid}/clear_refs`, '5')

/** A sample of `/metrics`, all its labels together; 0 when it is not there. */
export const metricOf = (text: string, name: string): number =>
  [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))].reduce(
    (sum, [, value]) => sum + Number(value),
    0,
  )

export interface Strain {
  readonly rssBeforeMb: number
  readonly rssPeakMb: number
  /**
   * The 99th percentile of the event loop's delay in the worst stretch between two samples, as the gateway itself
   * reports it.
   */
  readonly loopDelayMs: number
  /** Latency of `/health`, called without a pause, as a client sees it. */
  readonly pulseMs: number
  readonly spoolPeakMb: number
}

/** Samples one life of the gateway ten times a second until it is stopped. A sample without an answer is retried. */
export const watchStrain = (gateway: GatewayProcess): { stop(): Promise<Strain> } => {
  const pulse = watchPulse(gateway)
  const { pid } = gateway
  forgetPeak(pid)
  const rssBeforeMb = mbIn(pid, 'VmRSS')
  let [loopDelayS, spoolBytes] = [0, 0]
  let running = true
  const looking = (async () => {
    while (running) {
      const answer = await gateway.request('/metrics', { signal: AbortSignal.timeout(20_000) }).catch(() => null)
      const text = (await answer?.text()) ?? ''
      loopDelayS = Math.max(loopDelayS, metricOf(text, 'gateway_event_loop_delay_seconds'))
      spoolBytes = Math.max(spoolBytes, metricOf(text, 'gateway_spool_bytes'))
      await Bun.sleep(EVERY_MS)
    }
  })()
  return {
    async stop() {
      running = false
      await looking
      const pulseMs = await pulse.stop()
      const rssPeakMb = mbIn(pid, 'VmHWM')
      return { rssBeforeMb, rssPeakMb, loopDelayMs: loopDelayS * 1_000, pulseMs, spoolPeakMb: spoolBytes / 1024 / 1024 }
    },
  }
}

export const strainText = ({ rssBeforeMb, rssPeakMb, loopDelayMs, pulseMs }: Strain): string =>
  `RSS ${rssBeforeMb.toFixed(0)} MB before, ${rssPeakMb.toFixed(0)} at most; event loop late by ` +
  `${loopDelayMs.toFixed(0)} ms at most (p99 of 0.1 s), /health after ${pulseMs.toFixed(0)} ms at most`
