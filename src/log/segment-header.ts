// What stands at the head of a segment file.
import { type Files, nodeFiles } from './files.ts'
import { headerOf, nextFrame, readFrame, type SegmentHeader } from './frame.ts'

const HEADER_BYTES = 4 * 1024

/** The header of a segment, from whichever of its copies is whole; null when none is. */
export const readSegmentHeader = (path: string, files: Files = nodeFiles): SegmentHeader | null => {
  const descriptor = files.open(path)
  try {
    const buffer = Buffer.alloc(HEADER_BYTES)
    const bytes = files.read(descriptor, buffer, 0, buffer.length, 0)
    const first = readFrame(buffer, 0, bytes)
    const frame = typeof first === 'object' ? first : nextFrame(buffer, 0, bytes)
    return frame === null ? null : headerOf(frame)
  } finally {
    files.close(descriptor)
  }
}
