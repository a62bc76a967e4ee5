// The chain of a data folder: a small file beside the snapshot, which outlives it. It identifies a log that holds
// another chain, or none, as the wrong one.

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Diagnostics } from '../lib/process/diagnostics.ts'
import { codeOf } from '../lib/process/error-code.ts'
import { syncFolder } from '../lib/process/sync-folder.ts'

const FILE = 'chain'
const CHAIN_ID = /^[\w-]{1,128}$/

/**
 * The chain that was first used with this folder, or null when there was none. Throws when the file is there and cannot
 * be read.
 */
export const readChainWitness = (dataDir: string): string | null => {
  try {
    const text = readFileSync(join(dataDir, FILE), 'utf8').trim()
    return CHAIN_ID.test(text) ? text : null
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(error) ?? '')) return null
    throw error
  }
}

/**
 * Writes it beside, synced, then renamed: it is whole or not there. Blocks for a moment; once in the life of a folder.
 */
export const writeChainWitness = (dataDir: string, chainId: string): void => {
  const draft = join(dataDir, `${FILE}.${crypto.randomUUID()}.draft`)
  try {
    writeFileSync(draft, `${chainId}\n`, { mode: 0o600, flag: 'wx', flush: true })
    renameSync(draft, join(dataDir, FILE))
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  }
  syncFolder(dataDir)
}

/** Records the chain for later starts, which may have neither snapshot nor log. `known`: the recorded chain. */
export const noteChain = (
  { dataDir, diagnostics }: { readonly dataDir: string | null; readonly diagnostics: Diagnostics },
  known: string | null,
  chainId: string | undefined,
): void => {
  if (dataDir === null || chainId === undefined || chainId === known) return
  try {
    writeChainWitness(dataDir, chainId)
  } catch (error) {
    diagnostics.warn('chain_not_noted', { error })
  }
}
