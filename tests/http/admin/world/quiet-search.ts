// A search in which every request is in the read model: none is on its way to it.
import type { RowSearchDeps } from '../../../../src/inference/surface/request-search.ts'

export const QUIET_SEARCH: RowSearchDeps = {
  recentRequests: { find: () => null },
  requestLookup: { isKnown: async () => false, behindMs: async () => 0 },
}
