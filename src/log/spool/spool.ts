// The face of the package: what other parts may use (README.md).
export { BALLAST_BYTES, roomOf } from './ballast.ts'
export { readWatermark, replaceDurably, setAside, spoolDirectory, spoolNumbers, writeWatermark } from './directory.ts'
export { adoptFreeSpools, type LocalSpool, openSpool, type SpoolKeeping, type SpoolOptions } from './open.ts'
export type { OpenAdmission } from './open-admissions.ts'
export { type Appended, REFUSABLE, type Spool, SpoolClosed } from './port.ts'
