import { expect, test } from 'bun:test'
import { OpenAdmissions } from '../../../src/log/spool/open-admissions.ts'

const admit = (open: OpenAdmissions, recordId: string, requestId: string) =>
  open.observe('request.admitted', recordId, 'ten_1', 1, JSON.stringify({ id: requestId }))
const attempt = (open: OpenAdmissions, requestId: string, n: number) =>
  open.observe('request.attempted', `r.${requestId}.${n}`, 'ten_1', 1, JSON.stringify({ id: requestId, n }))
const settle = (open: OpenAdmissions, admission: string) =>
  open.observe('request.settled', `s.${admission}`, 'ten_1', 1, JSON.stringify({ id: 'x', admission }))
const attemptsOf = (open: OpenAdmissions) =>
  open.list().map(({ recordId, attempts }) => [recordId, attempts.map((json) => JSON.parse(json).n)])

test('attempts find their admission by the request, also with a copy of it, and none once it is settled', () => {
  const open = new OpenAdmissions()
  admit(open, 'a.1', 'req_1')
  admit(open, 'a.2', 'req_2')
  admit(open, 'a.3', 'req_1')
  attempt(open, 'req_1', 2)
  attempt(open, 'req_2', 2)
  attempt(open, 'req_none', 2)
  expect(attemptsOf(open)).toEqual([
    ['a.1', [2]],
    ['a.2', [2]],
    ['a.3', [2]],
  ])
  settle(open, 'a.1')
  settle(open, 'a.1')
  attempt(open, 'req_1', 3)
  expect(attemptsOf(open)).toEqual([
    ['a.2', [2]],
    ['a.3', [2, 3]],
  ])
  settle(open, 'a.3')
  attempt(open, 'req_1', 4)
  expect(attemptsOf(open)).toEqual([['a.2', [2]]])
})

test('what is carried into the next segment is restored whole, and its attempts go on', () => {
  const before = new OpenAdmissions()
  admit(before, 'a.1', 'req_1')
  attempt(before, 'req_1', 2)
  const open = new OpenAdmissions()
  for (const frame of before.carried()) open.restore(frame)
  attempt(open, 'req_1', 3)
  expect(attemptsOf(open)).toEqual([['a.1', [2, 3]]])
})

test('what a stream reserved further stays with its admission, also where a head carries it on', () => {
  const before = new OpenAdmissions()
  admit(before, 'a.1', 'req_1')
  before.observe('request.extended', 'r.1', 'ten_1', 1, JSON.stringify({ id: 'req_1', n: 1, reserved_nano_usd: 7 }))
  const after = new OpenAdmissions()
  for (const frame of before.carried()) after.restore(frame)
  expect(after.list().map(({ attempts }) => attempts.map((json) => JSON.parse(json).reserved_nano_usd))).toEqual([[7]])
})

test('a head that is torn behind an admission takes no attempts away that an earlier segment holds', () => {
  const open = new OpenAdmissions()
  admit(open, 'a.1', 'req_1')
  attempt(open, 'req_1', 2)
  const [admission, attempted] = [...open.carried()]
  open.restore(admission!)
  expect(attemptsOf(open)).toEqual([['a.1', [2]]])
  open.restore(attempted!)
  expect(attemptsOf(open)).toEqual([['a.1', [2]]])
})

test('an attempt costs the same however many requests are open', () => {
  const open = new OpenAdmissions()
  for (let at = 0; at < 20_000; at++) admit(open, `a.${at}`, `req_${at}`)
  for (let at = 0; at < 20_000; at++) attempt(open, `req_${at}`, 2) // 4 * 10^8 comparisons when each one looks at all
  expect(open.list().every(({ attempts }) => attempts.length === 1)).toBe(true)
})

test('what this process admits is found by its sequence, and stands in the order of the log', () => {
  const open = new OpenAdmissions()
  const note = (sequence: number, type: string, of: number | null) =>
    open.note({
      of,
      id: `me.e.${sequence}`,
      sequence,
      type,
      subject: 'ten_1',
      atMs: 1,
      data: [`"${type} `, `${sequence}"`],
      attempts: [],
    })
  admit(open, 'other.e.7', 'req_7')
  for (const sequence of [3, 70, 5, 67]) note(sequence, 'request.admitted', null)
  note(71, 'request.attempted', 67)
  note(72, 'request.settled', 3)
  note(73, 'request.settled', 3)
  note(74, 'request.attempted', 3)
  note(75, 'request.settled', null)
  expect(open.size).toBe(4)
  expect(open.list().map(({ recordId, attempts }) => [recordId, attempts.length])).toEqual([
    ['other.e.7', 0],
    ['me.e.5', 0],
    ['me.e.67', 1],
    ['me.e.70', 0],
  ])
  expect([...open.carried()]).toHaveLength(5)
})
