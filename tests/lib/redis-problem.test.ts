import { afterAll, expect, test } from 'bun:test'
import { openRedis } from '../../src/lib/redis.ts'
import { redisProblem, redisRefusal } from '../../src/lib/redis-problem.ts'
import { eventually } from '../services/eventually.ts'
import { startRedis } from '../services/redis.ts'
import { hangingUp, type Listener, saying, silentListener, withTls } from './listeners.ts'

const SECRET = 'the-password-itself'
const redis = await startRedis()
const locked = await startRedis()
const admin = new Bun.RedisClient(locked.url)
await admin.send('CONFIG', ['SET', 'requirepass', SECRET])
const listeners: Listener[] = []
const at = (listener: Listener) => {
  listeners.push(listener)
  return `127.0.0.1:${listener.port}`
}
const plain = new URL(redis.url).host
const closed = new URL(locked.url).host
afterAll(async () => {
  admin.close()
  for (const listener of listeners) listener.stop()
  await Promise.all([redis.stop(), locked.stop()])
})

const CASES: readonly [what: string, url: string, problem: RegExp | null][] = [
  ['a Redis without a password', `redis://${plain}`, null],
  ['the right password', `redis://:${SECRET}@${closed}/1`, null],
  ['no password', `redis://${closed}`, /wants a password: set it in redis\.url/],
  ['a wrong password', `redis://:wrong-${SECRET}@${closed}`, /refuses the user name or the password/],
  ['a user that is not known', `redis://bob:wrong-${SECRET}@${closed}`, /refuses the user name or the password/],
  ['a password where none is set', `redis://:${SECRET}@${plain}`, /refuses the user name or the password/],
  ['a database that is not there', `redis://${plain}/99`, /no database of this number/],
  ['TLS to a Redis without', `rediss://${plain}`, /begin redis\.url with redis:\/\//],
  ['no TLS to one with', `redis://${at(withTls())}`, /rediss:\/\//],
  ['a certificate of no authority', `rediss://${at(withTls())}`, /certificate is of no authority.*NODE_EXTRA_CA_CERTS/],
  ['nobody there', 'redis://127.0.0.1:1', /nothing listens at that address/],
  ['a name that nobody has', 'redis://no.such.host.invalid', /name cannot be resolved/],
  ['a silent one', `redis://${at(silentListener())}`, /does not answer in time/],
  ['one that hangs up', `redis://${at(hangingUp())}`, /closes the connection/],
  ['a web server', `redis://${at(saying('HTTP/1.1 400 Bad Request\r\n\r\n'))}`, /is no Redis/],
  ['a replica without its primary', `redis://${at(saying('-MASTERDOWN Link is down\r\n'))}`, /name the primary/],
]

test.each(CASES)('%s is named, with what to do', async (_, url, problem) => {
  const found = await redisProblem(url, 500)
  if (problem === null) return expect(found).toBeNull()
  expect(found).toMatch(problem)
  expect(found).not.toContain(SECRET)
})

test('the client tells why it is away, and nothing once it is connected', async () => {
  const away = openRedis(`redis://:wrong@${closed}`)
  await eventually('the reason is known', () => away.problem?.includes('correct them in redis.url') === true)
  away.close()
  const there = openRedis(redis.url)
  await there.reached(2_000)
  expect(there.problem).toBeNull()
  there.close()
})

test('each error that Redis has for a connection has words of its own', () => {
  expect(redisRefusal('-NOPERM this user has no permissions to run the command')).toContain('ACL')
  expect(redisRefusal('-ERR max number of clients reached')).toContain('maxclients')
  expect(redisRefusal('-ERR something else')).toBeNull()
})
