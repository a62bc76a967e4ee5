// What stands at the head of a segment file.
import { closeSync, openSync, readSync } from 'node:fs'
import { headerOf, nextFrame, readFrame, type SegmentHeader } from './frame.ts'

const HEADER_BYTES = 4 * 1024

/** The header of a segment, from whichever of its copies is whole; null when none is. */
export const readSegmentHeader = (path: string): SegmentHeader | null => {
  const descriptor = openSync(path, 'r')
  try {
    const buffer = Buffer.alloc(HEADER_BYTES)
    const bytes = readSync(descriptor, buffer, 0, buffer.length, 0)
    const first = readFrame(buffer, 0, bytes)
    const frame = typeof first === 'object' ? first : nextFrame(buffer, 0, bytes)
    return frame === null ? null : headerOf(frame)
  } finally {
    closeSync(descriptor)
  }
}
