import { expect, test } from 'bun:test'
import { nodeFiles } from '../../../src/log/files.ts'
import { SpoolNeeds } from '../../../src/upkeep/budgets/spool-needs.ts'
import { neededFrom } from '../../../src/upkeep/budgets/spool-spending.ts'
import { diskError } from '../../log/small-disk.ts'
import { temporaryFolder } from '../../log/support.ts'

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

test('what came too soon after the last note is noted when its time has come, though nothing else came, and at the end', () => {
  const folder = temporaryFolder()
  let nowMs = 0
  const spool = { directory: folder.path, files: nodeFiles }
  const needs = new SpoolNeeds(() => nowMs)
  needs.of(spool)
  needs.from(7)
  needs.note()
  expect(neededFrom(spool)).toBe(0) // what dead processes held is not given back yet
  needs.recovered(true)
  needs.from(7)
  needs.from(8)
  expect(neededFrom(spool)).toBe(7)
  nowMs += 10_000
  needs.from(8)
  expect(neededFrom(spool)).toBe(8)
  needs.from(9)
  needs.note()
  expect(neededFrom(spool)).toBe(9)
  folder.remove()
})
