// What an operator reads when no broker can be used.
import { afterEach, expect, test } from 'bun:test'
import { kafkaLog } from '../../../src/log/kafka/kafka.ts'
import { brokerProblem, openingProblem } from '../../../src/log/kafka/problems.ts'
import { CODE } from '../../../src/log/kafka/wire.ts'
import { hangingUp, type Listener, silentListener, withTls } from '../../lib/listeners.ts'

const listeners: Listener[] = []
afterEach(() => {
  for (const listener of listeners.splice(0)) listener.stop()
})

const at = (listener: Listener) => {
  listeners.push(listener)
  return `127.0.0.1:${listener.port}`
}

const login = { mechanism: 'plain', username: 'gate', password: 'pass-word' } as const

type Access = Partial<Parameters<typeof kafkaLog>[0]>
const CASES: readonly [what: string, address: () => string, access: Access, problem: RegExp][] = [
  ['nobody there', () => '127.0.0.1:1', {}, /127\.0\.0\.1:1: nothing listens.*\(ECONNREFUSED\)/],
  ['no such name', () => 'no.such.host.invalid:9092', {}, /name cannot be resolved/],
  ['a port for TLS', () => at(withTls()), {}, /wants TLS \(log\.kafka\.ssl is off\)/],
  ['a certificate of no authority', () => at(withTls()), { ssl: true }, /certificate is of no authority/],
  ['a port without TLS', () => at(silentListener()), { ssl: true }, /has TLS \(log\.kafka\.ssl is on\)/],
  ['a port for logins', () => at(hangingUp()), {}, /wants a login \(log\.kafka\.sasl_mechanism is none\)/],
  ['a login that is not taken', () => at(hangingUp()), { sasl: login }, /takes this login/],
]

test.each(CASES)('%s is named, with what to do', async (_, address, access, problem) => {
  const log = kafkaLog({ clientId: 'test', brokers: [address()], ...access })
  await expect(log.end('gateway.control.v1', 0)).rejects.toThrow(problem)
  expect(log.health().detail).toMatch(problem)
  expect(log.health().detail).not.toContain('pass-word')
  await log.close()
})

test('what the brokers say of a login is named', () => {
  const attempted = { name: 'kafka-1:9092', ssl: false, login: true }
  const of = (message: string, type?: string) => openingProblem(Object.assign(new Error(message), { type }), attempted)
  expect(of('SASL SCRAM SHA256 authentication failed: Authentication failed')).toContain('log.kafka.sasl_password')
  expect(of('The broker does not support requested SASL mechanism', 'UNSUPPORTED_SASL_MECHANISM')).toContain(
    'correct log.kafka.sasl_mechanism',
  )
  expect(of('Request is not valid given the current SASL state', 'ILLEGAL_SASL_STATE')).toContain('to none')
})

test('no code of the protocol stands alone', () => {
  for (const code of Object.values(CODE).filter((each) => each !== CODE.none))
    expect(brokerProblem(code)).toMatch(/^\D.{15,} \(error \d+\)$/)
  expect(brokerProblem(7)).toBe('the replicas did not confirm in time: look for slow or missing brokers (error 7)')
})
