// `gateway verify` on the folder of a gateway, up or down.
import { besideGateway, runCommand } from './command.ts'

export interface Verified {
  readonly code: number
  readonly printed: string
  /** What it complained of. */
  readonly lines: readonly string[]
  /** What stands behind a label of the report. */
  value(label: string): string | undefined
}

export const verified = async (folder: string): Promise<Verified> => {
  const { out: printed, errors, code } = await runCommand(['verify'], besideGateway(folder))
  const lines = errors.split('\n').filter((line) => line.startsWith('gatelog:'))
  return { code, printed, lines, value: (label) => new RegExp(`^ +${label} {2,}(.*)$`, 'm').exec(printed)?.[1] }
}
