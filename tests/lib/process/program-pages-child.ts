// A process of its own that runs much of the runtime, lets go of its program, and runs it again: one line of JSON. `elsewhere`: on a system that is not Linux.
import { dlopen, ptr } from 'bun:ffi'
import { Database } from 'bun:sqlite'
import { readFileSync, readlinkSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { gunzipSync, gzipSync } from 'node:zlib'

const WARM_ROUNDS = 20_000

/** Resident KB of each mapping of the program, with what it is: `r-xp`, or `own` where the file cannot give it back. */
const mappings = () => {
  const program = readlinkSync('/proc/self/exe')
  return readFileSync('/proc/self/smaps', 'utf8')
    .split(/\n(?=[0-9a-f]+-[0-9a-f]+ )/)
    .filter((text) => text.includes(program))
    .map((text) => {
      const own = text.includes(' rw-p ') || !/^Anonymous: +0 kB$/m.test(text)
      return { kind: own ? 'own' : text.split(' ')[1]!, kb: Number(/^Rss: +(\d+)/m.exec(text)![1]) }
    })
}
const fileKb = () => Number(/RssFile:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))![1])

const libc = dlopen('libc.so.6', { strnlen: { args: ['ptr', 'usize'], returns: 'usize' } }).symbols
const database = new Database(':memory:')
database.run('create table numbers (number integer)')

/** Interpreter, compilers, SQLite, FFI, hashes, zlib, regular expressions, the parser of TypeScript. The same answer each time. */
const work = (): string => {
  let sum = 0
  for (let i = 0; i < WARM_ROUNDS; i++) {
    const text = JSON.stringify({ i, of: 'x'.repeat(i % 50) })
    sum += JSON.parse(text).of.length + (/"i":(\d+)/.exec(text)?.[1]?.length ?? 0)
  }
  database.run('delete from numbers')
  for (let i = 0; i < 1_000; i++) database.run('insert into numbers values (?)', [i])
  const { total } = database.query('select sum(number) as total from numbers').get() as { total: number }
  const bytes = new TextEncoder().encode('length of this\0')
  const script = new Bun.Transpiler({ loader: 'ts' }).transformSync('export const one: number = 1')
  const digest = new Bun.CryptoHasher('sha256').update(gunzipSync(gzipSync(script))).digest('hex')
  Bun.gc(true)
  return [sum, total, libc.strnlen(ptr(bytes), bytes.length), digest].join(' ')
}

/** Runs code while it is taken away, and after. */
const startThread = () => {
  const thread = new Worker(
    `const { parentPort } = require('node:worker_threads')
    let ended = false, turns = 0
    parentPort.on('message', () => { ended = true })
    const turn = () => {
      for (let i = 0; i < 1_000; i++) JSON.parse(JSON.stringify({ i }))
      if (++turns === 1) parentPort.postMessage('begun')
      if (ended) { parentPort.postMessage(turns); process.exit() } else setImmediate(turn)
    }
    turn()`,
    { eval: true },
  )
  return {
    begun: new Promise((resolve) => thread.once('message', resolve)),
    turns: () =>
      new Promise<number>((resolve) => {
        thread.on('message', resolve)
        thread.postMessage('end')
      }),
  }
}

if (process.argv[2] === 'elsewhere') Object.defineProperty(process, 'platform', { value: 'freebsd' })
const { letGoOfProgram } = await import('../../../src/lib/process/program-pages.ts')
const answers = [work(), work()]
const thread = startThread()
await thread.begun
const before = { fileKb: fileKb(), mappings: mappings() }
const bytes = await letGoOfProgram()
const after = { fileKb: fileKb(), mappings: mappings() }
answers.push(work(), work())
const turns = await thread.turns()
console.log(JSON.stringify({ answers, turns, bytes, before, after, workedKb: fileKb() }))
