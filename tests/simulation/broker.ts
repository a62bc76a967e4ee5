// The log as simulated processes reach it: the log in memory, behind a network that delays, loses answers, delivers
// late and twice, and goes away.

import { memoryLog } from '../../src/log/memory.ts'
import { type EventLog, IndefiniteAppend, type LogRecord, LogUnavailable, type NewRecord } from '../../src/log/port.ts'
import { EPOCH_MS } from './globals.ts'
import type { Random } from './scenario/random.ts'
import { NOBODY, type Owner, type Scheduler } from './scheduler.ts'

/** How often each of these happens to an append, as a share. */
export interface NetworkFaults {
  /** Refused for certain. */
  unavailable: number
  /** Never arrives; the sender gets no answer. */
  lostRequest: number
  /** Is written; the sender gets no answer. */
  lostAnswer: number
  /** Arrives after its sender has given up, behind what was sent later. */
  late: number
  /** Is written twice, the second time later. */
  twice: number
  /** One way takes up to so long. */
  delayMs: number
}

export const QUIET_NETWORK: NetworkFaults = {
  ...{ unavailable: 0, lostRequest: 0, lostAnswer: 0, late: 0, twice: 0, delayMs: 3 },
}

export interface BrokerDeps {
  readonly scheduler: Scheduler
  readonly random: Random
  readonly partitions: (topic: string) => number
  note(who: string, what: string): void
}

/** As the Kafka adapter has it. */
const DEADLINE_MS = 2_000
/** The last copy of an append arrives after twice this at most. */
export const LATEST_MS = 9_000
/** How often a reader without a way to the broker looks whether it is to stop. */
const LOOK_MS = 500

export class Broker {
  readonly log: ReturnType<typeof memoryLog>
  readonly #connections: Connection[] = []
  /** Of the broker's clock. */
  skewMs = 0
  faults: NetworkFaults = { ...QUIET_NETWORK }

  constructor(readonly deps: BrokerDeps) {
    const { scheduler, partitions } = deps
    this.log = memoryLog({
      nowMs: () => EPOCH_MS + Math.floor(scheduler.nowMs) + this.skewMs,
      partitionCount: partitions,
    })
  }

  /** A client of the log. `link`: whether the machine reaches the broker. */
  connect(process: Owner, link: Link): EventLog {
    const connection = new Connection(this, process, link)
    this.#connections.push(connection)
    return connection
  }

  /** No reader is left, in dead processes neither: waiting readers would keep all of a run in memory. */
  async close(): Promise<void> {
    for (const connection of this.#connections) await connection.close()
    await this.log.close()
  }

  delay(): number {
    const { random } = this.deps
    const { delayMs } = this.faults
    return random.chance(0.05) ? random.next() * delayMs * 10 : random.next() * delayMs
  }
}

/** The way between a machine and the broker. */
export interface Link {
  downUntilMs: number
}

const short = (topic: string): string => topic.split('.')[1]!

class Connection implements EventLog {
  readonly #closed = new AbortController()

  constructor(
    private readonly broker: Broker,
    private readonly process: Owner,
    private readonly link: Link,
  ) {}

  get #isDown(): boolean {
    return this.broker.deps.scheduler.nowMs < this.link.downUntilMs || this.#closed.signal.aborted
  }

  append(topic: string, partition: number, records: readonly NewRecord[], signal?: AbortSignal): Promise<void> {
    const { scheduler, random, note } = this.broker.deps
    const { unavailable, lostRequest, lostAnswer, late, twice } = this.broker.faults
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const what = `${short(topic)}/${partition} ${records.length} records`
    if (signal?.aborted || !this.process.alive) return Promise.reject(new LogUnavailable('given up'))
    const draw = random.next()
    const isLate = draw >= unavailable + lostRequest && draw < unavailable + lostRequest + late
    if (this.#isDown || draw < unavailable) {
      note(this.process.name, `append ${what}: unavailable`)
      scheduler.after(this.broker.delay(), this.process, () => reject(new LogUnavailable('injected')))
      return promise
    }
    const indefinite = () => reject(new IndefiniteAppend('injected: no answer'))
    const timer = scheduler.after(DEADLINE_MS, this.process, indefinite)
    signal?.addEventListener('abort', indefinite)
    const settled = (settle: () => void) =>
      scheduler.after(this.broker.delay(), this.process, () => {
        if (this.#isDown) return
        timer.canceled = true
        settle()
      })
    // On its way it is a copy: the sender writes into the same memory again once it was answered, or is sure.
    const sent = records.map(({ key, value }) => ({ key, value: value === null ? null : new Uint8Array(value) }))
    const arrive = (isAnswered: boolean, copy: string) => {
      note(this.process.name, `append ${what}: written${isAnswered ? '' : ', nobody is told'}${copy}`)
      const written = this.broker.log.append(topic, partition, sent)
      if (isAnswered)
        written.then(
          () => settled(resolve),
          (error) => settled(() => reject(error)),
        )
    }
    if (draw < unavailable + lostRequest) note(this.process.name, `append ${what}: lost`)
    else {
      const isAnswered = !isLate && !random.chance(lostAnswer)
      const arrivesMs = isLate ? DEADLINE_MS + random.next() * (LATEST_MS - DEADLINE_MS) : this.broker.delay()
      scheduler.after(arrivesMs, NOBODY, () => arrive(isAnswered, isLate ? ', late' : ''))
      if (random.chance(twice))
        scheduler.after(arrivesMs + random.next() * LATEST_MS, NOBODY, () => arrive(false, ', again'))
    }
    return promise
  }

  async *read(
    topic: string,
    partition: number,
    from: number,
    signal: AbortSignal,
  ): AsyncGenerator<readonly LogRecord[]> {
    const { random } = this.broker.deps
    const either = AbortSignal.any([signal, this.#closed.signal])
    await this.#travel(either)
    const source = this.broker.log.read(topic, partition, from, either)[Symbol.asyncIterator]()
    while (!either.aborted) {
      const { value, error } = await source.next().then(
        (result) => ({ value: result.done === true ? null : result.value, error: null }),
        (thrown: unknown) => ({ value: null, error: thrown }),
      )
      await this.#travel(either)
      if (error !== null) throw error
      if (value === null || either.aborted) return
      for (let at = 0; at < value.length && !either.aborted; ) {
        const count = random.chance(0.3) ? random.int(1, value.length - at) : value.length - at
        yield value.slice(at, at + count)
        at += count
        if (at < value.length) await this.#travel(either)
      }
    }
  }

  end(topic: string, partition: number): Promise<number> {
    return this.#ask(() => this.broker.log.end(topic, partition))
  }

  /** There and back. */
  #ask(question: () => Promise<number>): Promise<number> {
    const { scheduler } = this.broker.deps
    const { promise, resolve, reject } = Promise.withResolvers<number>()
    if (this.#isDown) {
      scheduler.after(this.broker.delay(), this.process, () => reject(new LogUnavailable('injected')))
      return promise
    }
    scheduler.after(this.broker.delay(), NOBODY, () => {
      void question().then((end) => {
        scheduler.after(this.broker.delay(), this.process, () =>
          this.#isDown ? reject(new LogUnavailable('injected')) : resolve(end),
        )
      })
    })
    return promise
  }

  since(topic: string, partition: number, atMs: number): Promise<number> {
    return this.#ask(() => this.broker.log.since(topic, partition, atMs))
  }

  partitions(topic: string): Promise<readonly number[]> {
    return this.broker.log.partitions(topic)
  }

  health(): { ok: boolean; detail: string } {
    return { ok: !this.#isDown, detail: 'simulated' }
  }

  async close(): Promise<void> {
    this.#closed.abort()
  }

  /**
   * Resolves when what the broker has sent arrives, which needs a reachable machine, or when the reader stops. Runs as
   * the reader's process, whichever process woke it.
   */
  #travel(signal: AbortSignal): Promise<void> {
    const { scheduler } = this.broker.deps
    return new Promise((resolve) => {
      const arrive = () => {
        const downMs = this.link.downUntilMs - scheduler.nowMs
        if (downMs <= 0 || signal.aborted) resolve()
        else scheduler.after(Math.min(downMs, LOOK_MS) + this.broker.delay(), this.process, arrive)
      }
      scheduler.after(this.broker.delay(), this.process, arrive)
    })
  }
}
