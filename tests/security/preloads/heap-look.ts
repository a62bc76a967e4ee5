// Preloaded into a gateway: serves on the unix socket that `HEAP_LOOK` names.
// `GET /` collects garbage and returns what is reachable then: the strings of the JavaScript heap (`v8` heap snapshot),
// and the bytes of each read of a client's connection that is still alive.
// `GET /plant` keeps a string that is made at run time, in a map, as a cache would.

import { fullGC } from 'bun:jsc'
import { generateHeapSnapshot } from 'bun'

const path = process.env.HEAP_LOOK
const planted = process.env.HEAP_PLANTED
if (path === undefined || planted === undefined) throw new Error('HEAP_LOOK or HEAP_PLANTED is not set')

const kept = new Map<string, number>()
let reads: WeakRef<Buffer>[] = []

const liveReads = (): string[] => {
  reads = reads.filter((read) => read.deref() !== undefined)
  return reads.map((read) => read.deref()!.toString('latin1'))
}

Bun.serve({
  unix: path,
  async fetch(request) {
    if (new URL(request.url).pathname === '/plant') {
      // The environment holds it reversed: no string of the process is equal to it but this one.
      kept.set([...planted].reverse().join(''), 1)
      return new Response()
    }
    // A WeakRef keeps its target until the end of the turn that read it.
    await Bun.sleep(0)
    fullGC()
    const snapshot = generateHeapSnapshot('v8')
    return Response.json({ strings: (JSON.parse(snapshot) as { strings: string[] }).strings, reads: liveReads() })
  },
})

const { listen } = Bun
Bun.listen = ((options: Parameters<typeof listen>[0]) => {
  if (!('hostname' in options)) return listen(options)
  const { data } = options.socket
  const socket = {
    ...options.socket,
    data(from: never, bytes: never) {
      reads.push(new WeakRef(bytes as Buffer))
      return data?.(from, bytes)
    },
  }
  return listen({ ...options, socket } as never)
}) as typeof listen
