// The parts of kafkajs 2.2.4 that its own types omit. Used by connection.ts alone; the reason is in docs/decisions.
declare module 'kafkajs/src/broker/index.js' {
  export interface ConfigEntry {
    readonly configName: string
    readonly configValue: string | null
  }
  export default class Broker {
    constructor(options: {
      connectionPool: unknown
      logger: unknown
      authenticationTimeout?: number
      allowAutoTopicCreation?: boolean
    })
    readonly versions: Readonly<Record<number, { minVersion: number; maxVersion: number } | undefined>> | null
    connect(): Promise<void>
    isConnected(): boolean
    createTopics(request: {
      topics: readonly {
        topic: string
        numPartitions: number
        replicationFactor: number
        configEntries: readonly { name: string; value: string }[]
      }[]
      timeout: number
    }): Promise<unknown>
    describeConfigs(request: {
      resources: readonly { type: number; name: string }[]
    }): Promise<{ resources: readonly { resourceName: string; configEntries: readonly ConfigEntry[] }[] }>
  }
}

declare module 'kafkajs/src/network/connectionPool.js' {
  export interface RequestQueue {
    readonly pending: readonly unknown[]
    readonly throttledUntil: number
    throttleCheckTimeoutId: ReturnType<typeof setTimeout> | null
    scheduleCheckPendingRequests(): void
    checkPendingRequests(): void
    maybeThrottle(throttleMs: number): void
    push(request: {
      entry: {
        apiKey: number
        apiVersion: number
        apiName: string
        correlationId: number
        resolve(answer: { readonly payload: Buffer }): void
        reject(error: unknown): void
      }
      expectResponse: true
      requestTimeout: null
      sendRequest(): void
    }): void
  }
  export interface Connection {
    readonly requestQueue: RequestQueue
    readonly socket: { write(bytes: Uint8Array): boolean }
    isConnected(): boolean
    isAuthenticated(): boolean
    authenticate(): Promise<void>
    nextCorrelationId(): number
    send(request: {
      request: { apiKey: number; apiVersion: number; apiName: string; encode(): Promise<unknown> }
      response: { decode(raw: Buffer): Promise<Buffer>; parse(raw: Buffer): Promise<Buffer> }
    }): Promise<Buffer>
  }
  export default class ConnectionPool {
    constructor(options: Record<string, unknown>)
    readonly pool: readonly Connection[]
    getConnection(index?: number): Promise<Connection>
  }
}
