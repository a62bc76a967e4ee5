// The most tokens that a part of a message may be billed as, by its type: for reservations. The bytes of pictures and
// sound show little, and those of a reference nothing. Vendors change their rules: the table holds the most expensive
// documented ones.
import { isObject } from '../../wire/json.ts'

type Part = Readonly<Record<string, unknown>>

/** Its size is not known: as many tokens as the model takes. */
const UNSIZED = Number.POSITIVE_INFINITY
/**
 * That size where the catalogue does not hold the window of the model: the window of the largest models of the large
 * vendors.
 */
export const LARGEST_WINDOW = 2_097_152

/**
 * OpenAI, gpt-4o-mini: 2,833 for an image and 5,667 for each of its tiles of 512 pixels, at most 2 x 4. Others: below
 * 17,000.
 */
const IMAGE_TOKENS = 2_833 + 8 * 5_667
/** OpenAI bills 2,833 in low detail; models without detail take up to 16,384 (Qwen-VL). */
const LOW_IMAGE_TOKENS = 16_384
/**
 * Base64 characters of a token: 32 tokens a second (Gemini; OpenAI: 10) at 6 kbit/s, the lowest usual rate of speech.
 */
const AUDIO_TOKEN_CHARS = 31
const LEAST_AUDIO_TOKENS = 8_192
/** Formats with a lowest rate: in others (flac) silence takes next to no bytes. */
const AUDIO_FORMATS: ReadonlySet<unknown> = new Set(['wav', 'mp3', 'aac', 'm4a', 'ogg', 'opus', 'webm', 'pcm16'])
/**
 * At most one token a byte; but a page of a document is also billed as an image (Anthropic: up to 3,000), in few bytes.
 */
const LEAST_FILE_TOKENS = 65_536
/**
 * Anthropic adds a system prompt for tools, also for the tool that its kind makes of a form of the answer: up to 530
 * tokens, and 499 more for a computer tool.
 */
export const TOOLS_TOKENS = 1_280

const INLINE_IMAGE = /^data:(?:image\/|[;,])/i
const INLINE_TEXT = /^data:text\//i
const IMAGE_ENDING = /\.(?:png|jpe?g|gif|webp|bmp|tiff?|hei[cf]|avif|svg)$/i
/** Gemini takes films, sound and documents in place of images. */
const OTHER_ENDING = /\.(?:mp[34g]|mpe?g|mov|avi|wmv|webm|mkv|flv|3gpp?|wav|aac|ogg|flac|m4[av]|aiff?|pdf)$/i
const INLINE = /"data:(?!text\/)|"(?:data|bytes)":"/i
/** Text, whatever stands in it. */
const PLAIN_TYPES: ReadonlySet<unknown> = new Set(['text', 'refusal', 'thinking', 'redacted_thinking', 'reasoning'])
/** An address, or the name of a file that the vendor stores. */
const REFERENCE = /"(?:https?|gs|s3|files?|blob):|"(?:file|video|document)_?(?:id|ur[il])":/i

/** For an `image_url`: by its detail alone, wherever the image is. */
export const imageBound = (image: unknown): number => {
  const { url, detail, format } = isObject(image) ? image : ({ url: image } as Part)
  if (typeof url !== 'string' || (typeof format === 'string' && !/^image\//i.test(format))) return UNSIZED
  if (/^data:/i.test(url) && !INLINE_IMAGE.test(url)) return Math.max(url.length, LEAST_FILE_TOKENS)
  const [path = ''] = url.slice(0, 2_048).split(/[?#]/, 1)
  if (/^https?:/i.test(url) ? OTHER_ENDING.test(path) : !INLINE_IMAGE.test(url) && !IMAGE_ENDING.test(path))
    return UNSIZED
  return detail === 'low' ? LOW_IMAGE_TOKENS : IMAGE_TOKENS
}

/** For an `input_audio`, as base64. */
export const audioBound = (audio: unknown): number => {
  const { data, format } = isObject(audio) ? audio : ({} as Part)
  if (typeof data !== 'string' || /^\w+:/.test(data) || !AUDIO_FORMATS.has(format)) return UNSIZED
  return Math.max(LEAST_AUDIO_TOKENS, Math.ceil(data.length / AUDIO_TOKEN_CHARS))
}

/** For any other part (a file, a film, an unknown one), as JSON text of so many bytes. */
export const otherBound = ({ type, file }: Part, json: string, bytes: number): number => {
  if (PLAIN_TYPES.has(type)) return bytes
  if (REFERENCE.test(json)) return UNSIZED
  const data = isObject(file) ? file.file_data : null
  const isText = typeof data === 'string' ? INLINE_TEXT.test(data) : type !== 'file' && !INLINE.test(json)
  return isText ? bytes : Math.max(bytes, LEAST_FILE_TOKENS)
}
