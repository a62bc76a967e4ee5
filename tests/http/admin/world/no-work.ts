// Provider work for tests in which no provider is called.
import type { ProviderWork } from '../../../../src/upkeep/models/provider-work.ts'

const nothing = (): never => {
  throw new Error('no provider is called here')
}

export const NO_WORK: ProviderWork = {
  entriesOf: () => [],
  test: nothing,
  detect: nothing,
  list: nothing,
  close: async () => {},
}
