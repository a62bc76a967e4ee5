// Which records of a process start a topic holds.
import { expect, test } from 'bun:test'
import { Origins } from '../../projections/origins.ts'

const record = (sequence: number, epoch = 'e1') => ({ instance: 'ins_1', epoch, sequence })

test('missing records are reported, whatever the order and however often records come', () => {
  const origins = new Origins()
  for (const sequence of [3, 4, 6, 5, 4, 9, 12, 10, 9]) origins.note(record(sequence), 0)
  origins.note(record(0, 'e2'), 0)
  expect(origins.gaps('topic', false)).toEqual([
    'topic lacks records 7 to 8 of instance ins_1, process start e1',
    'topic lacks records 11 to 11 of instance ins_1, process start e1',
  ])
  const found = [2, 3, 8, 10, 13].map((sequence) => origins.has(record(sequence)))
  expect(found).toEqual([null, true, false, true, false])
  expect(origins.has(record(0, 'e3'))).toBeNull()
})

test('what may still be under way to another partition, or was deleted in one, is not lacking', () => {
  const origins = new Origins()
  for (let sequence = 0; sequence < 5_000; sequence++)
    if (sequence !== 100 && sequence !== 4_900) origins.note(record(sequence), sequence % 2)
  expect(origins.gaps('topic', false)).toEqual(['topic lacks records 100 to 100 of instance ins_1, process start e1'])
  expect(origins.gaps('topic', true)).toEqual([])
})
