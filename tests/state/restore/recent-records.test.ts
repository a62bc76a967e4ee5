import { expect, test } from 'bun:test'
import { RECENT_BYTES, RECENT_RECORDS, RecentRecords } from '../../../src/state/restore/recent-records.ts'

const record = (offset: number, bytes = 1) => ({ offset, atMs: 0, key: null, value: new Uint8Array(bytes) })
const offsets = (recent: RecentRecords) => [...recent.records()].map(({ offset }) => offset)

test('keeps the newest records and where those that counted stand, within its bounds', () => {
  const recent = new RecentRecords()
  for (let offset = 0; offset < RECENT_RECORDS * 2 + 5; offset++)
    recent.add(record(offset), offset % 2 === 0 ? `id${offset}` : null)
  const kept = offsets(recent)
  expect(kept.at(-1)).toBe(RECENT_RECORDS * 2 + 4)
  expect(kept.length).toBe(RECENT_RECORDS)
  expect(kept[0]! + kept.length - 1).toBe(kept.at(-1)!)
  expect(recent.offsetOf('id0')).toBeUndefined()
  expect(recent.offsetOf(`id${RECENT_RECORDS * 2 + 4}`)).toBe(RECENT_RECORDS * 2 + 4)
})

test('its bytes are bounded too', () => {
  const recent = new RecentRecords()
  for (let offset = 0; offset < 10; offset++) recent.add(record(offset, RECENT_BYTES / 4), null)
  expect(offsets(recent)).toEqual([6, 7, 8, 9])
})

test('what is learnt later of a record, and a second reading of the same records', () => {
  const recent = new RecentRecords()
  for (const offset of [7, 8, 9]) recent.add(record(offset), null)
  recent.counts('x', 8)
  recent.counts('gone', 3)
  expect([recent.offsetOf('x'), recent.offsetOf('gone')]).toEqual([8, undefined])
  for (const offset of [7, 8]) recent.add(record(offset), null)
  expect(offsets(recent)).toEqual([7, 8])
})
