// The face of the package: what other parts may use (README.md).
export { crc32c } from './crc32c.ts'
export { unpackLz4 } from './lz4.ts'
export { Lz4Models } from './lz4-models.ts'
export { BLOCK_BYTES, BLOCK_HEAD_BYTES, FRAME_END, FRAME_HEAD, Lz4Block, lz4Block } from './lz4-pack.ts'
export { unpackSnappy } from './snappy.ts'
