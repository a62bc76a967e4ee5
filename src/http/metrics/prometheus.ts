// What is used of the Prometheus library, by its files: asked for as a whole it loads a push gateway with the runtime's HTTP client, clusters and threads besides,
// which took 9 MB of resident memory (docs/decisions/0046-pages-of-the-program.md).
import Counter from '@prometheus-io/client/lib/counter.js'
import Gauge from '@prometheus-io/client/lib/gauge.js'
import Registry from '@prometheus-io/client/lib/registry.js'

export type { Metric } from '@prometheus-io/client'
export { Counter, Gauge, Registry }
