// The most tokens that a part of a message may be billed as, by what it is: for reservations. Bytes say little of pictures and sound, and nothing of what is
// elsewhere. Vendors change this: the table holds the dearest that is documented.
import { isObject } from '../../wire/json.ts'

type Part = Readonly<Record<string, unknown>>

/** Its size is not known: a whole prompt, as large as the model takes one. */
const UNSIZED = Number.POSITIVE_INFINITY
/** What that is where the catalogue does not say how much the model takes: the window of the largest models of the large vendors. */
export const LARGEST_WINDOW = 2_097_152

/** OpenAI, gpt-4o-mini: 2,833 for an image and 5,667 for each of its tiles of 512 pixels, of which there are 2 x 4 at most. Others: below 17,000. */
const IMAGE_TOKENS = 2_833 + 8 * 5_667
/** In low detail OpenAI bills 2,833; models that know no detail take up to 16,384 (Qwen-VL). */
const LOW_IMAGE_TOKENS = 16_384
/** Base64 characters of a token: 32 tokens a second (Gemini; OpenAI: 10) at 6 kbit/s, the lowest usual rate of speech. */
const AUDIO_TOKEN_CHARS = 31
const LEAST_AUDIO_TOKENS = 8_192
/** Those with a lowest rate: silence takes next to nothing in others (flac). */
const AUDIO_FORMATS: ReadonlySet<unknown> = new Set(['wav', 'mp3', 'aac', 'm4a', 'ogg', 'opus', 'webm', 'pcm16'])
/** A byte is a token at most; but a page of a document is billed as an image too (Anthropic: up to 3,000), in few bytes. */
const LEAST_FILE_TOKENS = 65_536
/** Anthropic writes a system prompt of its own for tools, also for the one that we make of a form of the answer: up to 530 tokens, and 499 more where one is a computer. */
export const TOOLS_TOKENS = 1_280

const INLINE_IMAGE = /^data:(?:image\/|[;,])/i
const INLINE_TEXT = /^data:text\//i
const IMAGE_ENDING = /\.(?:png|jpe?g|gif|webp|bmp|tiff?|hei[cf]|avif|svg)$/i
/** Gemini takes films, sound and documents where images stand. */
const OTHER_ENDING = /\.(?:mp[34g]|mpe?g|mov|avi|wmv|webm|mkv|flv|3gpp?|wav|aac|ogg|flac|m4[av]|aiff?|pdf)$/i
const INLINE = /"data:(?!text\/)|"(?:data|bytes)":"/i
/** Text, whatever stands in it. */
const PLAIN_TYPES: ReadonlySet<unknown> = new Set(['text', 'refusal', 'thinking', 'redacted_thinking', 'reasoning'])
/** An address, or the name of a file that the vendor keeps. */
const REFERENCE = /"(?:https?|gs|s3|files?|blob):|"(?:file|video|document)_?(?:id|ur[il])":/i

/** Of an `image_url`: its detail alone, wherever it is. */
export const imageBound = (image: unknown): number => {
  const { url, detail, format } = isObject(image) ? image : ({ url: image } as Part)
  if (typeof url !== 'string' || (typeof format === 'string' && !/^image\//i.test(format))) return UNSIZED
  if (/^data:/i.test(url) && !INLINE_IMAGE.test(url)) return Math.max(url.length, LEAST_FILE_TOKENS)
  const [path = ''] = url.slice(0, 2_048).split(/[?#]/, 1)
  if (/^https?:/i.test(url) ? OTHER_ENDING.test(path) : !INLINE_IMAGE.test(url) && !IMAGE_ENDING.test(path))
    return UNSIZED
  return detail === 'low' ? LOW_IMAGE_TOKENS : IMAGE_TOKENS
}

/** Of an `input_audio`, as base64. */
export const audioBound = (audio: unknown): number => {
  const { data, format } = isObject(audio) ? audio : ({} as Part)
  if (typeof data !== 'string' || /^\w+:/.test(data) || !AUDIO_FORMATS.has(format)) return UNSIZED
  return Math.max(LEAST_AUDIO_TOKENS, Math.ceil(data.length / AUDIO_TOKEN_CHARS))
}

/** Of any other part (a file, a film, one that is not known), as JSON text of so many bytes. */
export const otherBound = ({ type, file }: Part, json: string, bytes: number): number => {
  if (PLAIN_TYPES.has(type)) return bytes
  if (REFERENCE.test(json)) return UNSIZED
  const data = isObject(file) ? file.file_data : null
  const isText = typeof data === 'string' ? INLINE_TEXT.test(data) : type !== 'file' && !INLINE.test(json)
  return isText ? bytes : Math.max(bytes, LEAST_FILE_TOKENS)
}
