// The face of the package: what other parts may use (README.md).
export { openaiShaped } from './kind.ts'
export { OPENAI_ROWS } from './rows.ts'
export { saneUsage } from './whole.ts'
