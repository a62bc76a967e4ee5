// What a script of the control figures prints: one line of a table for each figure, with its N. `all.ts` gathers them.

export interface Figure {
  /** `C1` to `C10`, or a word for what has no number there. */
  readonly row: string
  /** What was done. */
  readonly what: string
  readonly figure: string
  /** How often, or of how many. */
  readonly n: number
  /** Whether it is what it should be. */
  readonly good: boolean
}

export const TABLE_HEAD = '| Row | What was done | Figure | N | |\n|---|---|---|---|---|'

export const lineOf = ({ row, what, figure, n, good }: Figure): string =>
  `| ${row} | ${what} | ${figure} | ${n.toLocaleString('en')} | ${good ? 'as it should be' : '**missed**'} |`

/** Prints them and ends the process: 0 when all are good. For the main program of a script. */
export const conclude = (figures: readonly Figure[]): never => {
  for (const figure of figures) console.log(lineOf(figure))
  process.exit(figures.every(({ good }) => good) ? 0 : 1)
}

/** `--name value` of the command line. */
export const textArgument = (name: string, otherwise: string): string => {
  const at = process.argv.indexOf(`--${name}`)
  return at < 0 ? otherwise : (process.argv[at + 1] ?? otherwise)
}

/** `--name value` of the command line, as a number. */
export const numberArgument = (name: string, otherwise: number): number => {
  const at = process.argv.indexOf(`--${name}`)
  return at < 0 ? otherwise : Number(process.argv[at + 1])
}
