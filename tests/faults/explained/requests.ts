// Random requests, and the gateway's account of each at the time of its decision: the debug block of its answer.
import type { GatewayProcess } from '../../services/gateway.ts'
import { type Dice, MODELS, type World } from './world.ts'

type Body = Record<string, unknown>

export interface Sent {
  readonly id: string
  readonly status: number
  /** The `gateway` block with its debug members; null where the answer had none. */
  readonly said: Body | null
}

const MODEL_NAMES = [...MODELS, ...MODELS, ...MODELS, 'mini', 'MAXI', 'support-model', 'chat-model', 'nobody']
const IMAGE = { type: 'image_url', image_url: { url: 'https://example.com/x.png' } }
const TOOL = { type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }

export const bodyOf = ({ one, chance, below }: Dice): Body => ({
  model: one(MODEL_NAMES),
  stream: chance(0.4),
  messages: [
    {
      role: 'user',
      content: chance(0.1) ? [{ type: 'text', text: 'look' }, IMAGE] : 'word '.repeat(one([1, 5, 60, 600])),
    },
  ],
  ...(chance(0.3) ? { max_tokens: one([10, 100, 5_000]) } : {}),
  ...(chance(0.1) ? { n: 2 } : {}),
  ...(chance(0.1) ? { seed: below(9) } : {}),
  ...(chance(0.1) ? { tools: [TOOL] } : {}),
  ...(chance(0.5) ? { user: `user-${below(20)}` } : {}),
})

const headersOf = ({ one, chance, below }: Dice, world: World): Record<string, string> => ({
  'X-Gateway-Debug': 'true',
  ...(chance(0.3) ? { 'X-Gateway-Policy': one([...world.policies, 'policy-3', 'no-such-policy']) } : {}),
  ...(chance(0.2) ? { 'X-Gateway-Endpoint': one(['support', 'batchwork', 'chat']) } : {}),
  ...(chance(0.1) ? { 'X-Gateway-Max-Cost-USD': one(['0.0001', '0.01']) } : {}),
  ...(chance(0.05) ? { 'X-Gateway-Latency-Target-Ms': one(['3', '50']) } : {}),
  ...(chance(0.1) ? { 'X-Gateway-No-Fallback': 'true' } : {}),
  ...(chance(0.05) ? { 'X-Gateway-Region': one(['eu', 'us']) } : {}),
  ...(chance(0.05) ? { 'X-Gateway-Sensitivity': 'phi' } : {}),
  ...(chance(0.1) ? { 'X-Gateway-Batch': 'true' } : {}),
  ...(chance(0.3) ? { 'X-Session': `session-${below(9)}` } : {}),
})

/** Sends one and reads all of its answer. */
export const send = async (gateway: GatewayProcess, world: World, roll: Dice): Promise<Sent> => {
  const body = bodyOf(roll)
  const headers = headersOf(roll, world)
  const answer = await gateway.request('/v1/chat/completions', { body, headers, key: roll.one(world.keys) })
  const text = await answer.text()
  const id = answer.headers.get('x-request-id')
  if (id === null || answer.status === 401) throw new Error(`nobody was asked: ${answer.status} ${text.slice(0, 300)}`)
  return { id, status: answer.status, said: blockOf(text) }
}

/** Of a stream the last frame that has one. */
const blockOf = (text: string): Body | null => {
  const frames = text.startsWith('{')
    ? [text]
    : text.split('\n').flatMap((line) => line.match(/^data: (\{.*)$/)?.[1] ?? [])
  for (const frame of frames.reverse()) {
    const { gateway } = JSON.parse(frame) as { gateway?: Body }
    if (gateway?.candidates !== undefined) return gateway
  }
  return null
}
