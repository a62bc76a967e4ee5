// A record that somebody is told of as appended, by its id.
import type { Appended, RecordId } from '../../src/log/spool/port.ts'

export const appended = (id: RecordId): Appended => {
  const from = id.lastIndexOf('.') + 1
  return { id, idPrefix: id.slice(0, from), sequence: Number(id.slice(from)) }
}

/** What is waited for is the id alone. */
export const idOf = async (record: Promise<Appended>): Promise<RecordId> => (await record).id
