// A fake OpenTelemetry collector on loopback: keeps the spans that it receives, and answers as the test sets it.

export interface CollectedSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly traceState?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly status: { readonly code?: number }
  /** By name, as JavaScript has them. */
  readonly attributes: Readonly<Record<string, unknown>>
}

export interface Collector {
  readonly url: string
  readonly spans: readonly CollectedSpan[]
  /** Every body, as it came. */
  readonly bodies: readonly string[]
  readonly headers: readonly Headers[]
  readonly resource: Readonly<Record<string, unknown>>
  /** What the next calls are answered with; `hang`: nothing, until `release`. */
  answer(status: number | 'hang'): void
  release(): void
  /** Resolves once so many spans, or calls, have come. */
  until(what: 'spans' | 'calls', count: number): Promise<void>
  stop(): Promise<void>
}

interface Any {
  readonly stringValue?: string
  readonly intValue?: string
  readonly doubleValue?: number
  readonly boolValue?: boolean
  readonly arrayValue?: { readonly values: readonly Any[] }
}
const plain = (value: Any): unknown =>
  value.intValue !== undefined
    ? Number(value.intValue)
    : value.arrayValue !== undefined
      ? value.arrayValue.values.map(plain)
      : (value.stringValue ?? value.boolValue ?? value.doubleValue)
const attributesOf = (list: readonly { key: string; value: Any }[]) =>
  Object.fromEntries(list.map(({ key, value }) => [key, plain(value)]))

export const startCollector = (): Collector => {
  const spans: CollectedSpan[] = []
  const bodies: string[] = []
  const headers: Headers[] = []
  let resource: Readonly<Record<string, unknown>> = {}
  let status: number | 'hang' = 200
  let held: (() => void)[] = []
  let waiting: (() => void)[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const text = await request.text()
      bodies.push(text)
      headers.push(request.headers)
      for (const wake of waiting.splice(0)) wake()
      if (status === 'hang') await new Promise<void>((resolve) => held.push(resolve))
      else if (status === 200) keep(text)
      for (const wake of waiting.splice(0)) wake()
      return new Response('{}', { status: status === 'hang' ? 503 : status })
    },
  })
  const keep = (text: string) => {
    const { resourceSpans } = JSON.parse(text)
    for (const each of resourceSpans) {
      resource = attributesOf(each.resource.attributes)
      for (const { spans: some } of each.scopeSpans)
        for (const span of some) spans.push({ ...span, attributes: attributesOf(span.attributes) })
    }
  }
  return {
    url: `http://127.0.0.1:${server.port}`,
    spans,
    bodies,
    headers,
    get resource() {
      return resource
    },
    answer(wanted) {
      status = wanted
    },
    release() {
      for (const resolve of held) resolve()
      held = []
    },
    async until(what, count) {
      while ((what === 'spans' ? spans.length : bodies.length) < count)
        await new Promise<void>((resolve) => waiting.push(resolve))
    },
    async stop() {
      for (const resolve of held) resolve()
      for (const wake of waiting.splice(0)) wake()
      waiting = []
      await server.stop(true)
    },
  }
}
