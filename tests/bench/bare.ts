// The named reference: a bare `Bun.serve` + `fetch` pass-through, nothing read and nothing recorded. Prints its port.
const target = process.argv[2]!

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  development: false,
  async fetch(request) {
    const { pathname } = new URL(request.url)
    const answer = await fetch(target + pathname, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: await request.arrayBuffer(),
    })
    return new Response(answer.body, {
      status: answer.status,
      headers: { 'content-type': answer.headers.get('content-type') ?? 'application/json' },
    })
  },
})
console.log(JSON.stringify({ port: server.port }))
