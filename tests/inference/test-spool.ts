import { FEEDBACK_EVENTS } from '../../src/domain/events/feedback.ts'
import {
  REQUEST_EVENTS,
  type RequestAdmitted,
  type RequestAttempted,
  type RequestExtended,
  type RequestSettled,
} from '../../src/domain/events/request.ts'
import { type Settlement, settlementOf } from '../../src/domain/events/request-reading.ts'
import { Value } from '../../src/lib/schema/schema.ts'
import { wholeText } from '../../src/lib/text/text-pieces.ts'
import { REFUSABLE, type Spool, SpoolClosed } from '../../src/log/spool/port.ts'
import { appended } from '../log/appended.ts'

const EVENTS = { ...REQUEST_EVENTS, ...FEEDBACK_EVENTS }

export interface Recorded {
  readonly type: string
  readonly subject: string
  readonly data: unknown
}

export interface TestSpool extends Spool {
  readonly records: Recorded[]
  admitted(): RequestAdmitted[]
  attempted(): RequestAttempted[]
  extended(): RequestExtended[]
  /** In the form of their readers. */
  settled(): Settlement[]
  /** The next settlement that arrives, or the one after `count` of them. */
  untilSettled(count?: number): Promise<Settlement[]>
  /** What `append` does before it keeps a record; throw to fail it. */
  before: ((type: string) => void | Promise<void>) | null
  close_(): void
  open: boolean
}

/** Keeps records in memory and refuses those that their schema refuses. */
export const testSpool = (): TestSpool => {
  const records: Recorded[] = []
  const waiting = new Set<() => void>()
  const of = <Data>(type: string) => records.filter((record) => record.type === type).map(({ data }) => data as Data)
  const spool: TestSpool = {
    instance: 'ins_test',
    epoch: 'e1',
    open: true,
    before: null,
    records,
    get admission() {
      return { open: spool.open, reason: spool.open ? '' : 'the disk is full' }
    },
    async append(_topic, type, subject, dataJson, of) {
      if (of === REFUSABLE && !spool.open) throw new SpoolClosed('the disk is full', null, null, 'disk')
      await spool.before?.(type)
      const data: unknown = JSON.parse(wholeText(dataJson))
      const schema = EVENTS[type as keyof typeof EVENTS]
      const [error] = Value.Errors(schema, data)
      if (error !== undefined) throw new Error(`${type}${error.path}: ${error.message}`)
      records.push({ type, subject, data })
      for (const wake of waiting) wake()
      return appended(`ins_test.e1.${records.length - 1}`)
    },
    backlog: () => ({ records: records.length, bytes: 0, oldestMs: null }),
    admitted: () => of('request.admitted'),
    attempted: () => of('request.attempted'),
    extended: () => of('request.extended'),
    settled: () => of<RequestSettled>('request.settled').map((record) => settlementOf(record, 'ins_test.e1')),
    async untilSettled(count = 1) {
      while (spool.settled().length < count) {
        await new Promise<void>((resolve) => {
          const wake = () => {
            waiting.delete(wake)
            resolve()
          }
          waiting.add(wake)
        })
      }
      return spool.settled()
    },
    close_() {
      spool.open = false
    },
    close: async () => {},
  }
  return spool
}
