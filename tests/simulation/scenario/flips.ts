// Bits that flip in the segments of a process that is down, and which records they hit.
import type { BudgetPart } from '../../../src/domain/budgets/recorded-parts.ts'
import { type Frame, nextFrame, readFrame } from '../../../src/log/segments/frame.ts'
import type { Machine } from '../machine.ts'
import type { Run } from '../run.ts'

/**
 * Flips `count` bits. The head of a segment is stored twice: one copy of it stays whole, and nothing is lost. A record
 * is stored once: the records that a flip hits are excused.
 */
export const flipBits = (run: Run, machine: Machine, count: number): void => {
  const { random } = run
  const free = machine.spools().filter((directory) => !machine.disk.isHeld(directory))
  if (free.length === 0) return
  const directory = free.length === 1 ? free[0]! : random.pick(free)
  for (let flipped = 0; flipped < count; flipped++) {
    const segments = machine.disk.list(directory).filter((name) => name.endsWith('.segment'))
    if (segments.length === 0) return
    const name = random.pick(segments)
    const path = `${directory}/${name}`
    const bytes = machine.disk.readWhole(path)
    if (bytes.length === 0) return
    const at = random.int(0, (run.hitsHeads ? headEnd(bytes) : bytes.length) - 1)
    const hit = frameAt(bytes, at)
    if (hit === null) continue
    const { frame, epoch, instance } = hit
    const isHead = frame.topic === 'header' || frame.topic === 'carried'
    const copied = `${path} ${frame.topic} ${frame.sequence}`
    if (isHead && run.damagedCopies.has(copied)) continue
    machine.disk.flip(path, at, random.int(0, 7))
    run.note(machine.name, `bit ${at} of ${name} flips: ${frame.topic} ${frame.type}`)
    if (isHead) {
      run.damagedCopies.add(copied)
      continue
    }
    const { data, sequence } = frame
    const request = (JSON.parse(data) as { id?: string }).id ?? ''
    run.damaged.add(request)
    run.damaged.add(`${instance}.${epoch}.${sequence}`)
    // Also what was written and never acknowledged: it may be settled as orphaned for want of the settlement.
    const said = run.clients.asked.get(request)?.said ?? []
    const parts = said.flatMap((text) => JSON.parse(text) as BudgetPart[])
    run.tolerated += Math.max(0, ...parts.map(({ nano_usd, tokens }) => Math.max(nano_usd, tokens)))
  }
}

/** Where the head of a segment ends. */
const headEnd = (bytes: Buffer): number => {
  let end = 0
  for (;;) {
    const frame = readFrame(bytes, end, bytes.length)
    if (typeof frame !== 'object' || (frame.topic !== 'header' && frame.topic !== 'carried')) return Math.max(1, end)
    end = frame.end
  }
}

/** The whole frame that holds a byte. */
const frameAt = (bytes: Buffer, at: number): { frame: Frame; instance: string; epoch: string } | null => {
  let instance = ''
  let epoch = ''
  for (let from = 0; from < bytes.length; ) {
    const read = readFrame(bytes, from, bytes.length)
    const frame = typeof read === 'object' ? read : nextFrame(bytes, from, bytes.length)
    if (frame === null || at < frame.start) return null
    if (frame.topic === 'header') ({ instance, epoch } = JSON.parse(frame.data) as { instance: string; epoch: string })
    if (at < frame.end) return { frame, instance, epoch }
    from = frame.end
  }
  return null
}
