// The survey of the control topic, kept in the folder `history` of a data folder, so that the first question after a start need not read the whole log.
// A shortcut: what is damaged, of another key or of another log is not used.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf } from '../../lib/process/error-code.ts'
import { Survey } from './record-index.ts'

const FOLDER = 'history'
const FILE = 'survey'
const MAC_BYTES = 32

/** Beside, then renamed; not synced, since a lost one costs time only. */
export const keepSurvey = (dataDir: string, survey: Survey): void => {
  const folder = join(dataDir, FOLDER)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const draft = join(folder, `${FILE}.${crypto.randomUUID()}.draft`)
  const bytes = survey.bytes()
  writeFileSync(draft, Buffer.concat([bytes, macOf(survey.macKey, bytes)]), { mode: 0o600 })
  renameSync(draft, join(folder, FILE))
}

/** The one that was kept last, or null. Whether it is of this log is for the caller to see. */
export const keptSurvey = async (dataDir: string, macKey: Uint8Array): Promise<Survey | null> => {
  let file: Buffer
  try {
    file = await readFile(join(dataDir, FOLDER, FILE))
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
  if (file.length < MAC_BYTES) return null
  const bytes = file.subarray(0, file.length - MAC_BYTES)
  return timingSafeEqual(file.subarray(bytes.length), macOf(macKey, bytes)) ? Survey.of(macKey, bytes) : null
}

const macOf = (macKey: Uint8Array, bytes: Uint8Array): Buffer =>
  createHmac('sha256', macKey).update('survey\0').update(bytes).digest()
