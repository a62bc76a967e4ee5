// The face of the package: what other parts may use (README.md).
export { HashSlots } from './hash-slots.ts'
export { NumberLists } from './number-lists.ts'
export { RowPages } from './row-pages.ts'
export { RowReader } from './row-reader.ts'
export { RowPacker } from './rows.ts'
