// `gateway metrics`: every metric of `/metrics`, as the Markdown table of docs/metrics.md.
import { gatewayMetrics, type MetricsDeps } from '../http/metrics/metrics.ts'

/** No metric is read: the table lists names, not values. */
const NOTHING = { build: { version: '', commit: null } } as unknown as MetricsDeps

/** One row for each metric, in the order of their names. */
export const metricsTable = (): string => {
  const rows = [...gatewayMetrics(NOTHING).described()]
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name, type, labels, help }) => {
      const named = labels.map((label) => `\`${label}\``).join(', ')
      return `| \`${name}\` | ${type} | ${named} | ${help.replaceAll('|', '\\|')} |`
    })
  return ['| Metric | Type | Labels | What it says |', '|---|---|---|---|', ...rows].join('\n')
}
