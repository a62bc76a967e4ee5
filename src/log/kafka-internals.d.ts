// The parts of kafkajs 2.2.4 that its own types do not show. Used by kafka-connection.ts alone; docs/decisions says why.
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
    produce(request: {
      acks: -1
      timeout: number
      topicData: readonly {
        topic: string
        partitions: readonly {
          partition: number
          firstSequence: number
          messages: readonly { key: Buffer | null; value: Buffer | null }[]
        }[]
      }[]
    }): Promise<unknown>
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
  }
  export interface Connection {
    readonly requestQueue: RequestQueue
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
