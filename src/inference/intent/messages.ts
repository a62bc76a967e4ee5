// The messages of a request: their form, and their size for plans and budgets.
import { GatewayError } from '../../wire/errors.ts'
import { isObject } from '../../wire/json.ts'
import { audioBound, imageBound, otherBound } from './media-bounds.ts'

const bad = (message: string, param: string): GatewayError => new GatewayError('invalid_request', message, { param })
const isPresent = (value: unknown): boolean => value !== undefined && value !== null

/** UTF-8 bytes of a value as JSON text. */
export const jsonBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))

/** Bytes of a file or an unknown part that count as one image. */
const PIECE_BYTES = 8_192

/** The counts of one pass over the messages. */
export interface Media {
  images: number
  audio: number
  /** Pieces of files and other large parts: a piece has at most as many tokens as bytes. */
  pieces: number
  /** Characters of media sent inline. */
  chars: number
  /** The most tokens of all these, and of references. */
  tokensBound: number
  /** UTF-8 bytes of text and of tool calls. */
  textBytes: number
}

/** Checks and counts the messages; throws 400 naming the message or part. */
export const readMessages = (messages: unknown): Media => {
  const media: Media = { images: 0, audio: 0, pieces: 0, chars: 0, tokensBound: 0, textBytes: 0 }
  const list = messages as unknown[]
  if (list.length === 0) throw bad('`messages` must not be empty', 'messages')
  for (let i = 0; i < list.length; i++) {
    const message = list[i]
    if (!isObject(message)) throw bad(`messages[${i}] must be an object`, `messages[${i}]`)
    if (typeof message.role !== 'string' || message.role === '') {
      throw bad(`messages[${i}].role must be a string`, `messages[${i}].role`)
    }
    const { content } = message
    if (isObject(message.audio)) media.tokensBound += audioBound(message.audio)
    if (isPresent(message.tool_calls)) media.textBytes += jsonBytes(message.tool_calls)
    if (typeof content === 'string') {
      media.textBytes += Buffer.byteLength(content)
      continue
    }
    if (!isPresent(content)) continue
    if (!Array.isArray(content)) {
      throw bad(`messages[${i}].content must be a string or an array of parts`, `messages[${i}].content`)
    }
    for (let j = 0; j < content.length; j++) readPart(content[j], `messages[${i}].content[${j}]`, media)
  }
  return media
}

const readPart = (part: unknown, at: string, media: Media): void => {
  if (!isObject(part)) throw bad(`${at} must be an object`, at)
  if (typeof part.type !== 'string') throw bad(`${at}.type must be a string`, `${at}.type`)
  if (part.type === 'text' && typeof part.text === 'string') media.textBytes += Buffer.byteLength(part.text)
  else if (part.type === 'image_url') {
    const url = isObject(part.image_url) ? part.image_url.url : part.image_url
    media.images++
    media.tokensBound += imageBound(part.image_url)
    if (typeof url === 'string' && url.startsWith('data:')) media.chars += url.length
  } else if (part.type === 'input_audio') {
    media.audio++
    media.tokensBound += audioBound(part.input_audio)
    const data = isObject(part.input_audio) ? part.input_audio.data : null
    if (typeof data === 'string') media.chars += data.length
  } else readOther(part, media)
}

/** Only the provider can count a file or an unknown part: a small one counts as text, a large one by its bytes. */
const readOther = (part: Record<string, unknown>, media: Media): void => {
  const json = JSON.stringify(part)
  const bytes = Buffer.byteLength(json)
  const bound = otherBound(part, json, bytes)
  if (part.type !== 'file' && bytes <= PIECE_BYTES) {
    media.textBytes += bytes
    media.tokensBound += bound - bytes // it counts among the bytes of the prompt
    return
  }
  media.tokensBound += bound
  media.pieces += Math.ceil(bytes / PIECE_BYTES)
  media.chars += bytes
}
