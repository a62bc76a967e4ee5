// `bun infra/capabilities.ts <folder> [YYYY-MM-DD]`: writes the capability snapshot again from an unpacked wheel of
// LiteLLM. No network. Before it, in a temporary folder:
// `pip download --no-deps litellm`, `python3 -m zipfile -e litellm-*.whl <folder>`.
// Its table is MIT-licensed (only `enterprise/` is not); the licence is copied beside the snapshot.
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  bareName,
  type CapabilityRow,
  type CapabilitySnapshot,
  placeless,
} from '../src/upkeep/models/capability-snapshot.ts'

const FOLDER = join(import.meta.dir, '../src/upkeep/models/capabilities')
const TABLE = 'litellm/model_prices_and_context_window_backup.json'

/** A row of LiteLLM's table: the fields that are read. */
export interface TableRow {
  readonly mode?: string
  readonly litellm_provider?: string
  readonly max_input_tokens?: unknown
  readonly max_output_tokens?: unknown
  readonly supports_function_calling?: unknown
  readonly supports_parallel_function_calling?: unknown
  readonly supports_response_schema?: unknown
  readonly supports_vision?: unknown
  readonly supported_modalities?: unknown
}

/** LiteLLM's provider -> the snapshot's. Others have no kind here. */
const TAKEN: Readonly<Record<string, string>> = {
  openai: 'openai',
  azure: 'azure',
  azure_ai: 'azure',
  anthropic: 'anthropic',
  gemini: 'gemini',
  bedrock: 'bedrock',
  bedrock_converse: 'bedrock',
  cohere_chat: 'cohere_chat',
  mistral: 'mistral',
  groq: 'groq',
  together_ai: 'together_ai',
  fireworks_ai: 'fireworks_ai',
  deepseek: 'deepseek',
  xai: 'xai',
  perplexity: 'perplexity',
  cerebras: 'cerebras',
}

/** Providers whose names have folders for regions and commitments. */
const IN_FOLDERS = new Set(['azure', 'bedrock'])

/** The provider's own name of a model: without LiteLLM's prefix, and without a region's folder. */
const nameOf = (key: string, row: TableRow, provider: string): string => {
  if (IN_FOLDERS.has(provider)) return key.slice(key.lastIndexOf('/') + 1)
  const prefix = `${row.litellm_provider}/`
  return key.startsWith(prefix) ? key.slice(prefix.length) : key
}

const tokens = (value: unknown): number =>
  typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= 1_000_000_000 ? value : 0

const letter = (value: unknown): string => (value === true ? 'y' : value === false ? 'n' : '-')

const rowOf = (name: string, row: TableRow): CapabilityRow => {
  const { supports_vision: says, supported_modalities: modalities } = row
  // Some rows list accepted inputs, and have no flag.
  const images = says ?? (Array.isArray(modalities) ? modalities.includes('image') : undefined)
  const stated = [
    row.supports_function_calling,
    row.supports_parallel_function_calling,
    row.supports_response_schema,
    images,
  ]
  return [name, tokens(row.max_input_tokens), tokens(row.max_output_tokens), stated.map(letter).join('')]
}

const factsOf = (row: CapabilityRow): string => row.slice(1).join()

/** Chat models with any capability in the table, each once: an entry without a region goes before one with a region. */
const rowsOf = (table: Readonly<Record<string, TableRow>>, provider: string): CapabilityRow[] => {
  const folders = (key: string): number => key.split('/').length
  const keys = Object.keys(table)
    .filter((key) => table[key]!.mode === 'chat' && TAKEN[table[key]!.litellm_provider ?? ''] === provider)
    .sort((a, b) => folders(a) - folders(b))
  const rows = new Map<string, CapabilityRow>()
  for (const key of keys) {
    const row = rowOf(nameOf(key, table[key]!, provider), table[key]!)
    if (factsOf(row) !== '0,0,----' && !rows.has(row[0])) rows.set(row[0], row)
  }
  return [...rows.values()]
    .filter((row) => {
      // The look-up itself ignores geographies and dates.
      const likest = [placeless(provider, row[0]), bareName(provider, row[0])].find(
        (name) => name !== row[0] && rows.has(name),
      )
      return likest === undefined || factsOf(rows.get(likest)!) !== factsOf(row)
    })
    .sort(([a], [b]) => (a < b ? -1 : 1))
}

/** The snapshot of a table, as of a day, `YYYY-MM-DD`. */
export const snapshotOf = (
  table: Readonly<Record<string, TableRow>>,
  version: string,
  day: string,
): CapabilitySnapshot => {
  const providers = [...new Set(Object.values(TAKEN))].map((provider) => [provider, rowsOf(table, provider)] as const)
  return { source: 'litellm', version, licence: 'MIT', taken: day, providers: Object.fromEntries(providers) }
}

/** One model a line, so that a refresh gives a readable diff. */
export const snapshotText = ({ providers, ...head }: CapabilitySnapshot): string => {
  const lines = Object.entries(providers).map(
    ([provider, rows]) => `${JSON.stringify(provider)}:[\n${rows.map((row) => JSON.stringify(row)).join(',\n')}\n]`,
  )
  return `${JSON.stringify(head).slice(0, -1)},"providers":{\n${lines.join(',\n')}\n}}\n`
}

if (import.meta.main) {
  const [folder, day = new Date().toISOString().slice(0, 10)] = process.argv.slice(2)
  if (folder === undefined) throw new Error('say where the wheel is unpacked: bun infra/capabilities.ts <folder>')
  const about = readdirSync(folder).find((name) => /^litellm-.+\.dist-info$/.test(name))
  if (about === undefined) throw new Error(`no unpacked wheel of litellm is in ${folder}`)
  const version = about.slice('litellm-'.length, -'.dist-info'.length)
  const table = JSON.parse(readFileSync(join(folder, TABLE), 'utf8')) as Record<string, TableRow>
  writeFileSync(join(FOLDER, 'snapshot.json'), snapshotText(snapshotOf(table, version, day)))
  copyFileSync(join(folder, about, 'licenses/LICENSE'), join(FOLDER, 'LICENSE'))
}
