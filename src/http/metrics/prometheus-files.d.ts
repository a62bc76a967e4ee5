// Files of @prometheus-io/client 0.16.1 by themselves; their types are those of the whole. Used by prometheus.ts alone.
declare module '@prometheus-io/client/lib/counter.js' {
  export { Counter as default } from '@prometheus-io/client'
}
declare module '@prometheus-io/client/lib/gauge.js' {
  export { Gauge as default } from '@prometheus-io/client'
}
declare module '@prometheus-io/client/lib/registry.js' {
  export { Registry as default } from '@prometheus-io/client'
}
