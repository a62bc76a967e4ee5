// Failures of brokers in words: what is wrong and what to do.
import { connectionProblem } from '../../lib/process/connection-problem.ts'

/** By the code of the protocol. */
const BY_CODE: Readonly<Record<number, string>> = {
  [-1]: 'the broker has an unexpected failure: see its log',
  1: 'the offset is not in the log',
  2: 'the record came damaged',
  3: 'the topic or partition does not exist, or may not be described: run `gateway topics`',
  5: 'the partition has no leader: bring its brokers back',
  6: 'the broker does not lead the partition any more',
  7: 'the replicas did not confirm in time: look for slow or missing brokers',
  8: 'the broker is not available',
  9: 'the replica is not available',
  10: 'the record is larger than the broker takes: raise message.max.bytes',
  13: 'the broker lost its connection to the others',
  15: 'the coordinator is not available',
  17: 'the name of the topic is not valid',
  18: 'the batch is larger than a segment: raise segment.bytes',
  19: 'too few replicas are in sync (min.insync.replicas): bring the brokers back',
  20: 'too few replicas were in sync after the write: bring the brokers back',
  29: 'the ACLs do not allow this topic: `gateway topics` prints those that are needed',
  31: 'the ACLs do not allow this on the cluster: `gateway topics` prints those that are needed',
  33: 'the broker does not offer this login: correct log.kafka.sasl_mechanism',
  34: 'the broker expects no login on this port: set log.kafka.sasl_mechanism to none, or use its port for logins',
  35: 'the broker does not know this version of the request: Kafka 3.1 or later is needed',
  36: 'the topic exists already',
  37: 'the number of partitions is not valid',
  38: 'there are fewer brokers than replicas are wanted',
  44: 'a policy of the brokers refuses the topic',
  56: 'the disk of the broker fails: see its log',
  57: 'the disk of the broker fails: see its log',
  58: 'the broker refuses the login: correct log.kafka.sasl_username and log.kafka.sasl_password',
  72: 'the listener of the leader is not found: check advertised.listeners',
  74: 'the leader is a newer one',
  75: 'the broker is behind in leaders',
  76: 'the broker does not take this compression: set log.kafka.compression to none',
  87: 'the broker refuses the record',
  89: 'the quota is exceeded: raise it for this client',
  100: 'the topic has another id: it was made anew',
}

/** `the replicas did not confirm in time: ... (error 7)`. */
export const brokerProblem = (code: number): string =>
  `${BY_CODE[code] ?? 'the broker refuses: see its log'} (error ${code})`

export interface Attempted {
  readonly name: string
  readonly ssl: boolean
  readonly login: boolean
}

/** What the error of a connection that could not be opened means, where it says so or its circumstances do. */
export const openingProblem = (error: unknown, { name, ssl, login }: Attempted): string => {
  const message = error instanceof Error ? error.message : String(error)
  const type = typeof error === 'object' && error !== null && 'type' in error ? error.type : null
  const is = (kind: string, text: RegExp) => type === kind || text.test(message)
  if (
    is('UNSUPPORTED_SASL_MECHANISM', /mechanism (is not supported|requested by the client)|requested SASL mechanism/i)
  )
    return `${name}: ${brokerProblem(33)}`
  if (is('ILLEGAL_SASL_STATE', /not valid given the current SASL state/i)) return `${name}: ${brokerProblem(34)}`
  if (is('SASL_AUTHENTICATION_FAILED', /SASL .*authentication failed|Authentication failed/i))
    return `${name}: ${brokerProblem(58)}`
  const cause = error instanceof Error ? error.cause : null
  const known = connectionProblem(error) ?? connectionProblem(cause)
  const ended =
    known?.startsWith('it closes') === true || /Closed connection|closed the connection|disconnected/i.test(message)
  const silent = /no answer to|timeout/i.test(message)
  if (ended || silent)
    return `${name} ${ended ? 'closes the connection' : 'does not answer in time'}: ${hints(ssl, login)}`
  return known === null ? `${name}: ${message}` : `${name}: ${known}`
}

/** A port for TLS hangs up on a client without, and waits for ever on the other way round; so does one for logins. */
const hints = (ssl: boolean, login: boolean): string => {
  const tls = ssl ? 'whether it has TLS (log.kafka.ssl is on)' : 'whether it wants TLS (log.kafka.ssl is off)'
  const user = login ? 'whether it takes this login' : 'whether it wants a login (log.kafka.sasl_mechanism is none)'
  return `check that it is a broker, ${tls} and ${user}`
}
