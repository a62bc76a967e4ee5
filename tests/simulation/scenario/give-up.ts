// An operator gives up an instance that has requests in flight, and it comes back: it resumes where it stood still, or
// starts again on the disk that was believed lost.
import type { Run } from '../run.ts'
import { NOBODY } from '../scheduler.ts'
import type { Retires } from './widening.ts'

/** It is silent for longer than an instance is that may still speak. */
const SILENT_MS = 100_000
/** So long its requests need to be shipped. */
const SHIPPED_MS = 2_000
const LOOKED_MS = 25_000

export const giveUp = (run: Run, { machine, comesBack }: Retires): void => {
  const { scheduler, machines, clients, random, changes } = run
  const quiet = machines[machine]!
  const others = machines.filter((each) => each !== quiet)
  const ask = (each: (typeof machines)[number], times: number, withinMs: number) => {
    for (let i = 0; i < times; i++) scheduler.after(random.next() * withinMs, NOBODY, () => clients.ask(each, 1))
  }
  scheduler.runUntil(scheduler.nowMs + 10_000)
  ask(quiet, 6, 500)
  scheduler.runUntil(scheduler.nowMs + SHIPPED_MS)
  const { process, gateway } = quiet
  const isKnown = gateway !== null && gateway.outcomes.spool.backlog().records === 0
  // What was never shipped is unknown to the others: its outcomes are booked when the instance comes back.
  if (process === null || !isKnown || others.some((each) => each.gateway === null)) return
  run.note(process.name, `is silent for ${SILENT_MS / 1_000} s`)
  if (comesBack === 'goes_on') scheduler.pause(process, SILENT_MS * 2)
  else quiet.kill(false)
  scheduler.runUntil(scheduler.nowMs + SILENT_MS)
  changes!.giveUp(others[0]!, gateway.outcomes.spool.instance)
  scheduler.runUntil(scheduler.nowMs + LOOKED_MS)
  for (const each of others) ask(each, 40, 15_000)
  scheduler.runUntil(scheduler.nowMs + 20_000)
  if (comesBack === 'goes_on') scheduler.resume(process)
  else quiet.start()
  scheduler.runUntil(scheduler.nowMs + 3_000)
  ask(quiet, 4, 2_000)
  scheduler.runUntil(scheduler.nowMs + 5_000)
}
