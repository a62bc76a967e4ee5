// Why a Redis takes no connection, in words: the client of the runtime only says that it was closed. One connection of
// its own, with the commands that begin one; holds no address and no password.
import { connect as connectPlain, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { connectionProblem } from './process/connection-problem.ts'

const WITHIN_MS = 1_500
const MAX_ANSWER_BYTES = 4_096
const DEFAULT_PORT = 6379
/** The first byte of an alert and of a handshake of TLS. */
const TLS_BYTES = [0x15, 0x16]

const PASSWORD = 'Redis refuses the user name or the password: correct them in redis.url'
const BY_ERROR: Readonly<Record<string, string>> = {
  WRONGPASS: PASSWORD,
  NOAUTH: 'Redis wants a password: set it in redis.url',
  NOPERM: 'the rules of Redis (ACL) do not allow this user the commands: allow scripts and the keys *gatelog:*',
  DENIED: 'Redis takes connections of its own machine alone (protected mode): set a password there',
  MAXCLIENTS: 'Redis has no connection left: raise maxclients there',
  LOADING: 'Redis is reading its data, and takes no command yet',
  MASTERDOWN: 'this Redis is a replica without its primary: name the primary in redis.url',
  READONLY: 'this Redis is a replica that only reads: name the primary in redis.url',
  MISCONF: 'Redis cannot write its data, and takes no writes: see its log',
  OOM: 'Redis has reached maxmemory, and takes no writes: raise it, or set a policy of eviction',
  CLUSTERDOWN: 'the Redis cluster is down',
  MOVED: 'this Redis is a node of a cluster, which has other nodes for these keys: name a server without cluster mode',
  NOREPLICAS: 'Redis has too few replicas, and takes no writes',
}

/** What an error reply of Redis means; null: nothing that is known. */
export const redisRefusal = (message: string): string | null => {
  const text = message.replace(/^-/, '').trim()
  const known = BY_ERROR[/^[A-Z]+/.exec(text)?.[0] ?? '']
  if (known !== undefined) return known
  if (/max number of clients/i.test(text)) return BY_ERROR.MAXCLIENTS!
  if (/invalid password|without any password configured/i.test(text)) return PASSWORD
  if (/DB index|invalid DB/i.test(text)) return 'Redis has no database of this number: correct the path of redis.url'
  return null
}

const command = (...parts: string[]): string =>
  `*${parts.length}\r\n${parts.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`).join('')}`

const greeting = ({ username, password, pathname }: URL): string => {
  const [user, secret] = [decodeURIComponent(username), decodeURIComponent(password)]
  const login = secret === '' ? '' : command('AUTH', ...(user === '' ? [secret] : [user, secret]))
  const database = pathname.slice(1)
  return login + (database === '' ? '' : command('SELECT', database)) + command('PING')
}

const dial = ({ protocol, hostname, port }: URL, onOpen: () => void): Socket => {
  const host = hostname.replace(/^\[|\]$/g, '')
  const target = { host, port: Number(port || DEFAULT_PORT) }
  return protocol === 'rediss:' ? connectTls(target, onOpen) : connectPlain(target, onOpen)
}

/** One sentence; null when this connection was taken. */
export const redisProblem = (address: string, withinMs = WITHIN_MS): Promise<string | null> => {
  if (!URL.canParse(address)) return Promise.resolve('redis.url is no URL of a Redis')
  const url = new URL(address)
  const isTls = url.protocol === 'rediss:'
  const { promise, resolve } = Promise.withResolvers<string | null>()
  let opened = false
  let answer = Buffer.alloc(0)
  const socket = dial(url, () => {
    opened = true
    socket.write(greeting(url))
  })
  const timer = setTimeout(() => resolve(silence(opened, isTls)), withinMs)
  socket.on('data', (bytes: Buffer) => {
    answer = Buffer.concat([answer, bytes]).subarray(0, MAX_ANSWER_BYTES)
    const said = meaningOf(answer)
    if (said !== undefined) resolve(said)
  })
  socket.on('error', (error) => resolve(failure(error)))
  socket.on('close', () => resolve(closing(answer, isTls)))
  return promise.finally(() => {
    clearTimeout(timer)
    socket.destroy()
  })
}

/** Undefined while more is to come. */
const meaningOf = (answer: Buffer): string | null | undefined => {
  if (TLS_BYTES.includes(answer[0] ?? 0)) return 'Redis speaks TLS on that port: begin redis.url with rediss://'
  const lines = answer.toString('latin1').split('\r\n')
  const refused = lines.slice(0, -1).find((line) => line.startsWith('-'))
  if (refused !== undefined) return redisRefusal(refused) ?? 'Redis refuses the first commands: see its log'
  if (/^HTTP\//.test(lines[0] ?? '')) return 'what listens there is no Redis: correct host and port of redis.url'
  return lines.includes('+PONG') ? null : undefined
}

const failure = (error: Error): string =>
  `Redis cannot be reached: ${connectionProblem(error) ?? 'the connection fails'}`

const silence = (opened: boolean, isTls: boolean): string => {
  if (opened) return 'Redis does not answer in time: check that it is a Redis, and not overloaded'
  return isTls
    ? 'Redis does not answer to TLS: where it has none on that port, begin redis.url with redis://'
    : 'Redis cannot be reached: it does not answer in time: check the address and the firewall'
}

const closing = (answer: Buffer, isTls: boolean): string =>
  isTls || answer.length > 0
    ? 'Redis closes the connection: see its log'
    : 'Redis closes the connection: where it wants TLS on that port, begin redis.url with rediss://'
