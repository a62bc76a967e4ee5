// Which header may carry the key: one that nothing else uses. Headers of HTTP and of proxies never come through, or end
// the request; headers that the gateway reads for itself are echoed, recorded and quoted, and a key must stand in none
// of these places.

/** Headers of the message itself, of its connection and of its way to the gateway. */
const OF_HTTP = [
  ...['host', 'connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization', 'te'],
  ...['trailer', 'transfer-encoding', 'upgrade', 'expect', 'via', 'max-forwards', 'http2-settings', 'priority'],
  ...['range', 'date', 'cache-control', 'pragma', 'age', 'expires', 'etag', 'last-modified', 'vary', 'warning'],
  ...['accept', 'allow', 'location', 'retry-after', 'server', 'www-authenticate', 'link', 'early-data', 'alt-svc'],
]
const OF_BROWSERS = [
  ...['cookie', 'set-cookie', 'origin', 'referer', 'user-agent', 'from', 'dnt', 'save-data', 'last-event-id'],
  'upgrade-insecure-requests',
]
/** Proxies write them anew, and into their logs. */
const OF_PROXIES = [
  ...['forwarded', 'x-real-ip', 'x-client-ip', 'x-cluster-client-ip', 'true-client-ip', 'x-remote-addr'],
  ...['x-host', 'x-scheme', 'x-rewrite-url', 'x-http-method-override', 'x-request-id', 'x-request-start'],
  ...['x-correlation-id', 'x-trace-id', 'x-cloud-trace-context', 'x-amzn-trace-id', 'uber-trace-id'],
  ...['traceparent', 'tracestate', 'baggage', 'b3'],
]
const OF_THE_GATEWAY = ['idempotency-key']

const NAMES = new Set([...OF_HTTP, ...OF_BROWSERS, ...OF_PROXIES, ...OF_THE_GATEWAY])
const BEGINNINGS = [
  ...['content-', 'accept-', 'if-', 'sec-', 'access-control-'],
  ...['x-forwarded-', 'x-original-', 'x-envoy-', 'x-accel-', 'x-b3-', 'x-datadog-', 'cf-'],
  // SDKs identify themselves by these.
  ...['x-gateway-', 'x-stainless-'],
]

/** Whether a header of this name can carry the key, and carries nothing else. */
export const mayCarryKey = (name: string): boolean => {
  const lower = name.toLowerCase()
  const isName = /^[a-z0-9-]+$/.test(lower)
  return isName && !NAMES.has(lower) && !BEGINNINGS.some((beginning) => lower.startsWith(beginning))
}
