import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { readUuid, UUID_BYTES, uuidText } from '../../../src/lib/packed-table/uuid-bytes.ts'

test('a UUID is read as it was written; what is spelled otherwise is none', () => {
  const bytes = new Uint8Array(UUID_BYTES + 3)
  fc.assert(
    fc.property(fc.uuid(), fc.nat(35), fc.constantFrom('-', '0', 'G', 'é', 'A'), (uuid, at, other) => {
      expect(readUuid(`key_${uuid}`, 4, bytes, 3)).toBe(true)
      expect(uuidText(bytes, 3)).toBe(uuid)
      const changed = uuid.slice(0, at) + other + uuid.slice(at + 1)
      if (readUuid(changed, 0, bytes, 0)) expect(uuidText(bytes, 0)).toBe(changed)
      else expect(changed).not.toMatch(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
    }),
  )
})

test('what stands before a UUID is put there, whatever was before', () => {
  const uuid = '0198a7f2-1c3d-7e4f-8a9b-0c1d2e3f4a5b'
  const bytes = new Uint8Array(UUID_BYTES)
  readUuid(uuid, 0, bytes, 0)
  const prefix = fc.oneof(fc.constantFrom('', 'key_', 'a', '-'), fc.string({ maxLength: 40, unit: 'binary' }))
  fc.assert(
    fc.property(fc.array(prefix), (prefixes) => {
      for (const one of prefixes) expect(uuidText(bytes, 0, one)).toBe(one + uuid)
    }),
  )
})
