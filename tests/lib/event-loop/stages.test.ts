import { expect, test } from 'bun:test'
import { type Beginner, MAX_BEGUN, Stages, stages } from '../../../src/lib/event-loop/stages.ts'

/** Stages whose turns are made by hand, and what they did. */
const byHand = () => {
  const soon: (() => void)[] = []
  const did: string[] = []
  const made = new Stages(
    (turn) => void soon.push(turn),
    () => void did.push('settled'),
  )
  const beginner = (name: string, isRequest = true): Beginner => ({
    begin() {
      did.push(name)
      return isRequest
    },
  })
  return {
    stages: made,
    did,
    beginner,
    arrival: (name: string) => ({ deliver: () => void did.push(name) }),
    task: (name: string) => () => void did.push(name),
    /** False: nothing was to be done. */
    turn() {
      const tasks = soon.splice(0)
      for (const task of tasks) task()
      return tasks.length > 0
    },
    take: () => did.splice(0).filter((what) => what !== 'settled'),
    takeAll: () => did.splice(0),
  }
}
const names = (prefix: string, from: number, to: number) =>
  Array.from({ length: to - from }, (_, index) => `${prefix}${from + index}`)

test('answers go on first, then requests are begun, then comes what waits for the end of the turn, and who waited for that', () => {
  const { stages, beginner, arrival, task, turn, takeAll } = byHand()
  stages.atEnd(task('end'))
  stages.begins(beginner('request'))
  stages.arrived(arrival('answer'))
  expect(takeAll()).toEqual([])
  expect(turn()).toBe(true)
  expect(takeAll()).toEqual(['answer', 'request', 'settled', 'end', 'settled'])
  expect(turn()).toBe(false)
})

test('so many are begun in a turn, in their order; what is no request yet does not count', () => {
  const { stages, beginner, task, turn, take } = byHand()
  const all = 2 * MAX_BEGUN + 4
  for (const name of names('r', 0, all)) stages.begins(beginner(name))
  stages.begins(beginner('last'))
  turn()
  expect(take()).toEqual(names('r', 0, MAX_BEGUN))
  for (const name of names('half', 0, 100)) stages.begins(beginner(name, false))
  stages.atEnd(task('end'))
  turn()
  expect(take()).toEqual([...names('r', MAX_BEGUN, 2 * MAX_BEGUN), 'end'])
  turn()
  expect(take()).toEqual([...names('r', 2 * MAX_BEGUN, all), 'last', ...names('half', 0, 100)])
  expect(turn()).toBe(false)
})

test('of more than 512 that wait the first begins at once; none is lost or overtaken, none is kept', () => {
  const { stages, beginner, turn, take } = byHand()
  for (let round = 0; round < 3; round++) {
    for (const name of names('r', 0, 600)) stages.begins(beginner(name))
    expect(take()).toEqual(names('r', 0, 88))
    let turns = 0
    while (turn()) turns++
    expect(turns).toBe(Math.ceil(512 / MAX_BEGUN))
    expect(take()).toEqual(names('r', 88, 600))
  }
})

test('those who wait again when they are called wait behind the others, also where too many wait', () => {
  const { stages, beginner, turn, take, did } = byHand()
  let again = 3
  const ahead: Beginner = {
    begin() {
      did.push('ahead')
      if (again-- > 0) stages.begins(ahead)
      return false
    },
  }
  stages.begins(ahead)
  for (const name of names('r', 0, 513)) stages.begins(beginner(name))
  while (turn());
  const order = take()
  expect(order.filter((name) => name !== 'ahead')).toEqual(names('r', 0, 513))
  expect(order.filter((name) => name === 'ahead')).toHaveLength(4)
  again = 1
  stages.begins(ahead)
  turn()
  expect(take()).toEqual(['ahead'])
  turn()
  expect(take()).toEqual(['ahead'])
  expect(turn()).toBe(false)
})

test('what is asked for meanwhile is done in the next turn', () => {
  const { stages, beginner, arrival, turn, take, did } = byHand()
  stages.arrived({
    deliver() {
      did.push('one')
      stages.arrived(arrival('two'))
    },
  })
  stages.atEnd(() => {
    did.push('end')
    stages.atEnd(() => void did.push('later'))
    stages.begins(beginner('request'))
  })
  turn()
  expect(take()).toEqual(['one', 'end'])
  turn()
  expect(take()).toEqual(['two', 'request', 'later'])
  expect(turn()).toBe(false)
})

test('a task that throws is reported, and takes nothing from the others', () => {
  const { stages, beginner, task, turn, take } = byHand()
  stages.atEnd(() => {
    throw new Error('broken')
  })
  stages.atEnd(task('end'))
  for (const name of names('r', 0, MAX_BEGUN + 4)) stages.begins(beginner(name))
  expect(turn).toThrow('broken')
  take()
  turn()
  expect(take()).toEqual([...names('r', MAX_BEGUN, MAX_BEGUN + 4), 'end'])
})

test('a turn without anything at its end settles once; behind what was at its end those who wait are scheduled before it goes on', () => {
  const { stages, beginner, arrival, task, turn, takeAll } = byHand()
  stages.arrived(arrival('answer'))
  turn()
  expect(takeAll()).toEqual(['answer', 'settled'])

  const scheduled: (() => void)[] = []
  const did: string[] = []
  const made = new Stages(
    (next) => void scheduled.push(next),
    () => void did.push(`settled with ${scheduled.length} to come`),
  )
  for (const name of names('r', 0, MAX_BEGUN + 1)) made.begins(beginner(name))
  made.atEnd(task('end'))
  scheduled.shift()!()
  expect(did).toEqual(['settled with 0 to come', 'settled with 1 to come'])
})

test('those of the process: what requests of this turn resolve has run before its end', async () => {
  const did: string[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  stages.atEnd(() => {
    did.push('end')
    resolve()
  })
  stages.begins({
    begin() {
      void (async () => {
        for (let step = 0; step < 10; step++) await step
        did.push('request')
      })()
      return true
    },
  })
  await promise
  expect(did).toEqual(['request', 'end'])
})

test('those of the process, in a turn of the loop that somebody makes within a turn', async () => {
  const did: string[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  stages.arrived({
    deliver() {
      void Promise.resolve().then(async () => {
        // The runner turns the event loop here, until the promise is settled.
        await expect(
          new Promise<void>((_, reject) => {
            stages.arrived({ deliver: () => reject(new Error('told')) })
          }),
        ).rejects.toThrow('told')
        did.push('within')
        resolve()
      })
    },
  })
  await promise
  expect(did).toEqual(['within'])
})
