// Planned routes that this version does not serve: 501 for a caller with a key (docs/behaviour.md: "Authentication").
import type { Method } from './route.ts'

export const PLANNED: readonly { readonly method: Method; readonly path: string }[] = [
  { method: 'GET', path: '/cache/stats' },
  { method: 'GET', path: '/cache/inspect' },
  { method: 'POST', path: '/cache/invalidate' },
  { method: 'GET', path: '/cache/invalidations' },
  { method: 'POST', path: '/replay' },
  { method: 'GET', path: '/replay' },
  { method: 'GET', path: '/replay/:id' },
  { method: 'GET', path: '/evaluations' },
  { method: 'GET', path: '/evaluations/:id' },
  { method: 'POST', path: '/tunnels/create' },
  { method: 'POST', path: '/tunnels/stop' },
  { method: 'POST', path: '/tunnels/restart' },
  { method: 'GET', path: '/tunnels/status' },
  { method: 'GET', path: '/tunnels/current-url' },
  { method: 'GET', path: '/tunnels/history' },
  { method: 'GET', path: '/tool-invocations' },
  { method: 'GET', path: '/tool-invocations/:id' },
  { method: 'GET', path: '/agent-runs' },
  { method: 'GET', path: '/agent-runs/:id' },
]
