// The seeder over a log that folds at once, with the kinds of this build, for tests.
import type { Bootstrap } from '../../../src/domain/bootstrap.ts'
import { newApiKey, newId } from '../../../src/lib/crypto/ids.ts'
import { KINDS, kindOf } from '../../../src/providers/kinds.ts'
import type { ListedModel } from '../../../src/providers/port.ts'
import { openSeeder } from '../../../src/upkeep/bootstrap/seeder.ts'
import type { SeedReport } from '../../../src/upkeep/bootstrap/step.ts'
import { modelFacts } from '../../../src/upkeep/models/model-facts.ts'
import type { FoldingCommit } from '../../http/admin/world/folding-commit.ts'

export const NOW_MS = Date.UTC(2026, 10, 20)
const UNLISTED = { contextWindow: null, maxOutputTokens: null, capabilities: null }
const NO_PRICE = { contextWindow: null, input: 7, output: null, cachedInput: null }

/** One start with these settings. `listed`: what a provider that is asked says of each model. */
export const seedInto = (
  log: FoldingCommit,
  bootstrap: Bootstrap,
  listed: Partial<ListedModel> | null = null,
): Promise<SeedReport> =>
  openSeeder(
    { bootstrap, adminKey: null, inferenceKey: null },
    {
      // A reader, as the live fold has it: not the state itself.
      live: { control: { table: (name) => log.state.table(name) } },
      commit: log.commit,
      kindTable: { resolve: kindOf, names: [...KINDS.keys()] },
      modelCatalogue: {
        list: async () => [],
        factsOfListed: async (_, listed) => modelFacts(listed, NO_PRICE, ['chat']),
        factsOf: async (_, name) =>
          modelFacts(listed === null ? null : { ...UNLISTED, ...listed, name }, NO_PRICE, ['chat']),
      },
      env: () => undefined,
      minKeyLength: 20,
      newId,
      newApiKey,
      nowMs: () => NOW_MS,
    },
  )()
