import { expect, test } from 'bun:test'
import { nodeFiles } from '../../src/log/files.ts'
import { neededFrom } from '../../src/upkeep/lease-recovery.ts'
import { SpoolNeeds } from '../../src/upkeep/spool-needs.ts'
import { diskError } from '../log/small-disk.ts'
import { temporaryFolder } from '../log/support.ts'

test('a disk that takes nothing does not end the process, and what is needed is noted once it does', () => {
  const folder = temporaryFolder()
  let nowMs = 0
  let isFull = true
  const create = (path: string) => {
    if (isFull) throw diskError('ENOSPC')
    return nodeFiles.create(path)
  }
  const spool = { directory: folder.path, files: { ...nodeFiles, create } }
  const needs = new SpoolNeeds(() => nowMs)
  needs.of(spool)
  needs.recovered(true)
  needs.from(7)
  expect([needs.record, neededFrom(spool)]).toEqual([7, 0])
  isFull = false
  nowMs += 60_000
  needs.from(8)
  expect([needs.record, neededFrom(spool)]).toEqual([8, 8])
  folder.remove()
})
