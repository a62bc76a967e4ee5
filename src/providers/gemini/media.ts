// Images, audio, video and files of the client's wire -> parts of Gemini's. Nothing is fetched here: an address stays
// an address.
import { isObject } from '../../wire/json.ts'
import { dataUrl, refuse } from '../shared/converting.ts'
import { type Json, objectOf, textOf } from '../shared/read-json.ts'

export type Part = Record<string, unknown>

const MIME = /^[\w.+-]+\/[\w.+-]+$/
const ADDRESS = /^(?:https?|gs):\/\//i

// The media type of an address is derived from its ending alone.
const BY_ENDING: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  webp: 'image/webp',
  gif: 'image/gif',
  heic: 'image/heic',
  heif: 'image/heif',
  pdf: 'application/pdf',
  txt: 'text/plain',
  csv: 'text/csv',
  md: 'text/markdown',
  html: 'text/html',
  mp3: 'audio/mp3',
  wav: 'audio/wav',
  ogg: 'audio/ogg',
  flac: 'audio/flac',
  aac: 'audio/aac',
  mp4: 'video/mp4',
  mov: 'video/mov',
  webm: 'video/webm',
  mpeg: 'video/mpeg',
}

const typeByEnding = (url: string): string | undefined => {
  const path = url.slice(0, 2_048).split(/[?#]/, 1)[0]!
  const ending = path.slice(path.lastIndexOf('.') + 1).toLowerCase()
  return Object.hasOwn(BY_ENDING, ending) ? BY_ENDING[ending] : undefined
}

/** `format` is the media type where the address shows none; some clients send it. */
const mediaPart = (url: string, format: unknown, param: string): Part => {
  if (/^data:/i.test(url)) {
    const { mediaType, data } = dataUrl(url, param)
    return { inlineData: { mimeType: mediaType === 'image/jpg' ? 'image/jpeg' : (mediaType ?? 'text/plain'), data } }
  }
  if (!ADDRESS.test(url)) throw refuse('this provider takes an http, https, gs or data URL here', param)
  const mimeType = typeof format === 'string' && MIME.test(format) ? format : typeByEnding(url)
  return { fileData: { ...(mimeType === undefined ? {} : { mimeType }), fileUri: url } }
}

/** `image_url` and `video_url`: both hold an address as text or in an object. */
const urlPart = (part: Json, name: string, param: string, shaping: Set<string>): Part => {
  const value = part[name]
  const { url: inner, format, detail } = objectOf(value)
  const url = textOf(value) ?? textOf(inner)
  if (url === null) throw refuse(`${name} needs a url`, `${param}.${name}`)
  if (typeof detail === 'string' && detail !== 'auto') shaping.add(`dropped ${name}.detail`)
  return mediaPart(url, format, `${param}.${name}.url`)
}

const audioPart = (part: Json, param: string): Part => {
  const { data, format } = objectOf(part.input_audio)
  if (typeof data !== 'string') throw refuse('input_audio needs data', `${param}.input_audio.data`)
  if (typeof format !== 'string' || !/^[\w.+-]{1,40}$/.test(format))
    throw refuse('input_audio needs a format, such as wav or mp3', `${param}.input_audio.format`)
  return { inlineData: { mimeType: `audio/${format.toLowerCase()}`, data } }
}

const filePart = (part: Json, filesUrl: string, param: string, shaping: Set<string>): Part => {
  const { file_data, file_id, filename, format } = objectOf(part.file)
  if (filename !== undefined) shaping.add('dropped file.filename')
  if (typeof file_data === 'string') return mediaPart(file_data, format, `${param}.file.file_data`)
  if (typeof file_id !== 'string') throw refuse('a file needs file_data or a file_id', `${param}.file`)
  // The name of an uploaded file becomes its address.
  const url = /^files\/[\w-]{1,128}$/.test(file_id) ? `${filesUrl.split('?', 1)[0]}/${file_id}` : file_id
  return mediaPart(url, format, `${param}.file.file_id`)
}

export interface MediaContext {
  /** The parent of the `files/<id>` of uploaded files. */
  readonly filesUrl: string
  /** Notes about what was dropped. */
  readonly shaping: Set<string>
}

/** The part for media; null when the type has no counterpart. Throws 400 naming the field. */
export const mediaPartOf = (part: Json, param: string, { filesUrl, shaping }: MediaContext): Part | null => {
  switch (part.type) {
    case 'image_url':
    case 'video_url':
      return urlPart(part, part.type, param, shaping)
    case 'input_audio':
      return audioPart(part, param)
    case 'file':
      return filePart(part, filesUrl, param, shaping)
    default:
      return null
  }
}

/** An inline part, which tool results may hold. */
export const isInline = (part: Part): boolean => isObject(part.inlineData)
