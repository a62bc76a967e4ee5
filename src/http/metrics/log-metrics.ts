// Metrics of the path of outcomes: out of the spool, into the log, into the tables. Also metrics of the process itself.
import { Gauge, type Registry } from '@prometheus-io/client'
import { readOnScrape } from './tally.ts'
import type { DiskView, ProjectionView, SendingView, Telemetry, TraceCounts } from './telemetry.ts'

/** A scrape waits at most this long for Postgres. */
const QUERY_MS = 1_000

/** Progress of the read models: queried from Postgres on a scrape, once for all of these metrics, in bounded time. */
export const projectionMetrics = (registers: Registry[], { projections }: Telemetry): void => {
  const query = async (): Promise<readonly ProjectionView[] | null> => {
    if (projections === undefined) return null
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<null>((resolve) => {
      timer = setTimeout(resolve, QUERY_MS, null)
    })
    // `gateway_projection_known` reports that Postgres is unavailable.
    const reports = projections().catch(() => null)
    return Promise.race([reports, late]).finally(() => clearTimeout(timer))
  }
  let pending: Promise<readonly ProjectionView[] | null> | null = null
  const reports = () => {
    pending ??= query().finally(() => {
      pending = null
    })
    return pending
  }
  const gauge = (name: string, help: string, value: (view: ProjectionView) => number) =>
    new Gauge({
      name,
      help,
      labelNames: ['model'],
      registers,
      async collect() {
        const views = await reports()
        this.reset()
        for (const view of views ?? []) this.set({ model: view.model }, value(view))
      },
    })
  const lagHelp = 'Age of the oldest record that is in the log and not in the tables, by read model.'
  gauge('gateway_projection_lag_seconds', lagHelp, ({ lagMs }) => lagMs / 1_000)
  const behindHelp = 'Records that are in the log and not in the tables.'
  gauge('gateway_projection_behind_records', behindHelp, ({ behindRecords }) => behindRecords)
  const poisonHelp = 'Records set aside because they could not be read.'
  gauge('gateway_projection_poison_records', poisonHelp, ({ poisonRecords }) => poisonRecords)
  const ageHelp = 'Age of the worker’s last report; an old one means that none runs.'
  gauge('gateway_projection_report_age_seconds', ageHelp, ({ ageMs }) => ageMs / 1_000)
  new Gauge({
    name: 'gateway_projection_known',
    help: '1 when Postgres could be asked how far the read models are.',
    registers,
    async collect() {
      this.set((await reports()) === null ? 0 : 1)
    },
  })
}

/** The sender that ships the spool to Kafka; zeros where the spool is the log. */
export const sendingMetrics = (registers: Registry[], { sending }: Telemetry): void => {
  const gauge = (name: string, help: string, value: (view: SendingView) => number) =>
    readOnScrape(registers, name, help, () => {
      const view = sending?.() ?? null
      return view === null ? 0 : value(view)
    })
  gauge('gateway_sender_stuck', '1 while nothing can be shipped to the log.', ({ stuck }) => (stuck ? 1 : 0))
  gauge('gateway_sender_shipped_total', 'Records shipped to the log.', ({ shipped }) => shipped)
  gauge('gateway_sender_resent_total', 'Batches that had to be sent again.', ({ resent }) => resent)
  gauge(
    'gateway_sender_refused_total',
    'Records that the brokers refused; they are set aside.',
    ({ refused }) => refused,
  )
  gauge(
    'gateway_sender_damaged_bytes_total',
    'Bytes of the spool that could not be read; they are set aside.',
    (view) => view.damagedBytes,
  )
  gauge('gateway_sender_lag_seconds', 'Age of the newest record when the log took it.', ({ lagMs }) => lagMs / 1_000)
}

/** Failures of the disk under the spool. */
export const diskMetrics = (registers: Registry[], { disk }: Telemetry): void => {
  const counter = (name: string, help: string, value: (view: DiskView) => number) =>
    readOnScrape(registers, name, help, () => (disk === undefined ? 0 : value(disk())))
  counter(
    'gateway_spool_write_failures_total',
    'Writes of outcomes that the disk refused.',
    (view) => view.writeFailures,
  )
  const help = 'Syncs of outcomes that the disk refused; what they were to make durable is written again.'
  counter('gateway_spool_sync_failures_total', help, (view) => view.syncFailures)
}

/** Spans on their way to the collector; zeros while traces are off. */
export const traceMetrics = (registers: Registry[], { traces }: Telemetry): void => {
  const gauge = (name: string, help: string, value: (counts: TraceCounts) => number) =>
    readOnScrape(registers, name, help, () => (traces === undefined || traces === null ? 0 : value(traces.counts)))
  gauge('gateway_traces_queued', 'Traces that wait for the collector.', ({ queued }) => queued)
  gauge('gateway_traces_exported_total', 'Traces that the collector took.', ({ exported }) => exported)
  gauge(
    'gateway_traces_dropped_total',
    'Traces dropped: the queue was full, or the collector did not take them.',
    ({ dropped }) => dropped,
  )
}

/** The process: its version, and the resources that it uses. */
export const processMetrics = (
  registers: Registry[],
  build: { readonly version: string; readonly commit: string | null },
): void => {
  new Gauge({
    name: 'gateway_build_info',
    help: '1, with the version and the commit of this build.',
    labelNames: ['version', 'commit'],
    registers,
    collect() {
      this.set({ version: build.version, commit: build.commit ?? '' }, 1)
    },
  })
  readOnScrape(registers, 'gateway_cpu_seconds_total', 'Processor time that this process took.', () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  })
  readOnScrape(registers, 'gateway_memory_bytes', 'Resident memory of this process.', () => process.memoryUsage.rss())
}
