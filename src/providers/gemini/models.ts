// Differences between families of Google's models on one wire. Names are open-ended: a name that is not listed as old
// is taken to be new.

export interface GeminiFamily {
  /** Gemma takes no system instruction. */
  readonly systemInstruction: boolean
  /**
   * Gemini 3 and later: calls that are sent back need the signature of the thought behind them, and results may hold
   * images.
   */
  readonly signatures: boolean
  /** Gemini 2 takes a budget of thinking tokens, later ones a level. */
  readonly thinking: 'budget' | 'level'
  /** The value for `reasoning_effort` "none" where thinking cannot be turned off; null where it can. */
  readonly leastThinking: 'minimal' | 'low' | 128 | null
  /** Gemini 2.5 refuses penalties. */
  readonly penalties: boolean
}

const GEMMA = /(?:^|\/)gemma-/i
const OLDER = /(?:^|\/)(?:gemini-[12](?:[.-]|$)|gemini-pro(?:-vision)?$|gemini-robotics-er-1\.5|learnlm)/i
const GEMINI_25 = /(?:^|\/)gemini-2\.5(?:[.-]|$)/i
const GEMINI_25_PRO = /(?:^|\/)gemini-2\.5-pro(?:-|$)/i
/** They refuse the level "minimal". */
const NO_MINIMAL = /(?:^|\/)(?:gemini-flash-latest$|gemini-pro-latest$|gemini-3(?:\.\d+)?-pro(?:-|$))/i
const FLASH = /(?:^|\/)gemini-(\d+)\.(\d+)-flash(?!-lite)(?:-|$)/i

const leastLevel = (model: string): 'minimal' | 'low' => {
  if (NO_MINIMAL.test(model)) return 'low'
  const [, major, minor] = FLASH.exec(model) ?? []
  return Number(major) > 3 || (Number(major) === 3 && Number(minor) >= 7) ? 'low' : 'minimal'
}

export const familyOf = (model: string): GeminiFamily => {
  const gemma = GEMMA.test(model)
  const older = gemma || OLDER.test(model)
  return {
    systemInstruction: !gemma,
    signatures: !older,
    thinking: older && !gemma ? 'budget' : 'level',
    leastThinking: older && !gemma ? (GEMINI_25_PRO.test(model) ? 128 : null) : leastLevel(model),
    penalties: !GEMINI_25.test(model),
  }
}
