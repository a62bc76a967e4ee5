import type { Bootstrap } from '../../../src/domain/bootstrap.ts'
import { newApiKey, newId } from '../../../src/lib/crypto/ids.ts'
import type { ListedModel, ProviderKind } from '../../../src/providers/port.ts'
import { openSeeder } from '../../../src/upkeep/bootstrap/seeder.ts'
import type { SeedDeps, SeedReport } from '../../../src/upkeep/bootstrap/step.ts'
import { modelFacts } from '../../../src/upkeep/models/model-facts.ts'
import { GatewayError } from '../../../src/wire/errors.ts'
import { type FoldingCommit, foldingCommit } from '../../http/admin/world/folding-commit.ts'
import { KINDS } from '../../http/admin/world/gateway.ts'

const NO_PRICE = { contextWindow: null, input: null, output: null, cachedInput: null }
export const ADMIN = 'an-admin-key-of-my-own-choice'
const sandbox: ProviderKind = {
  ...KINDS[1]!,
  kind: 'sandbox',
  listing: undefined,
  script: () => ({ status: 200, headers: {}, headerDelayMs: 0, pieces: [], ending: 'end' }),
}
const azure: ProviderKind = {
  ...KINDS[0]!,
  kind: 'azure_openai',
  defaultBaseUrl: null,
  usualEnv: 'AZURE_OPENAI_API_KEY',
  usualBaseUrlEnv: 'AZURE_OPENAI_ENDPOINT',
  listing: undefined,
}
const kinds = [{ ...KINDS[0]!, usualEnv: 'OPENAI_API_KEY' }, KINDS[1]!, azure, sandbox]

export interface Installation {
  readonly log: FoldingCommit
  listed: readonly ListedModel[] | GatewayError
  env: Record<string, string>
  nowMs: number
  open(bootstrap?: Bootstrap): () => Promise<SeedReport>
  seed(bootstrap?: Bootstrap, keys?: { admin?: string; inference?: string }): Promise<SeedReport>
}

export const install = (log = foldingCommit(() => Date.UTC(2026, 10, 20))): Installation => {
  const installation: Installation = {
    log,
    listed: [],
    env: {},
    nowMs: Date.UTC(2026, 10, 20),
    open: (bootstrap = {}) => openSeeder({ bootstrap, adminKey: null, inferenceKey: null }, deps),
    seed: async (bootstrap = {}, { admin, inference } = {}) =>
      openSeeder({ bootstrap, adminKey: admin ?? null, inferenceKey: inference ?? null }, deps)(),
  }
  const deps: SeedDeps = {
    live: log.live,
    commit: log.commit,
    kindTable: {
      resolve: (text) => kinds.find(({ kind }) => kind === text.replaceAll('-', '_')) ?? null,
      names: kinds.map(({ kind }) => kind),
    },
    modelCatalogue: {
      async list() {
        if (installation.listed instanceof GatewayError) throw installation.listed
        return installation.listed
      },
      factsOfListed: async (_, listed) => modelFacts(listed, { ...NO_PRICE, input: 3 }, ['chat']),
      factsOf: async () => modelFacts(null, { ...NO_PRICE, input: 3 }, ['chat']),
    },
    env: (name) => installation.env[name],
    minKeyLength: 20,
    newId,
    newApiKey,
    nowMs: () => installation.nowMs,
  }
  return installation
}

type Seeded = 'tenants' | 'keys' | 'providers' | 'models' | 'policies'
type Limits = 'budgets' | 'cache_rules' | 'tools' | 'tool_policies'
export const rowsOf = <Name extends Seeded | Limits>(at: Installation, name: Name) =>
  [...at.log.state.table(name).rows()].map(([, row]) => row)
