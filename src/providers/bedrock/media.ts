// Images, documents and audio of the client's wire -> blocks of Converse. It takes bytes, and addresses in S3; it
// fetches nothing from the web.
import { dataUrl, quoted, refuse } from '../shared/converting.ts'
import { type Json, objectOf, textOf } from '../shared/read-json.ts'

type Formats = Readonly<Record<string, string>>

const IMAGES: Formats = {
  'image/png': 'png',
  'image/jpeg': 'jpeg',
  'image/jpg': 'jpeg',
  'image/gif': 'gif',
  'image/webp': 'webp',
}
const DOCUMENTS: Formats = {
  'application/pdf': 'pdf',
  'text/csv': 'csv',
  'application/msword': 'doc',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'application/vnd.ms-excel': 'xls',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'text/html': 'html',
  'text/plain': 'txt',
  'text/markdown': 'md',
}
const BY_EXTENSION: Formats = { jpg: 'jpeg', markdown: 'md', htm: 'html' }

interface Located {
  readonly format: string
  readonly source: Json
}

const listed = (formats: Formats): string => [...new Set(Object.values(formats))].join(', ')

/**
 * The bytes of a data URL or an object in S3, and their format. `fallback` is the type of a data URL that names none.
 */
const located = (url: string, formats: Formats, fallback: string | null, what: string, param: string): Located => {
  if (/^data:/i.test(url)) {
    const { mediaType, data } = dataUrl(url, param)
    const type = mediaType ?? fallback
    const format = type !== null && Object.hasOwn(formats, type) ? formats[type] : undefined
    if (format === undefined)
      throw refuse(`this provider takes ${what} as ${listed(formats)}, not ${quoted(type)}`, param)
    return { format, source: { bytes: data } }
  }
  if (!/^s3:\/\/[^/]+\/./i.test(url))
    throw refuse(
      `this provider takes ${what} as base64 data URLs (or s3:// addresses) and fetches none from the web`,
      param,
    )
  const extension = /\.(\w+)$/.exec(url)?.[1]?.toLowerCase() ?? ''
  const format = Object.hasOwn(BY_EXTENSION, extension) ? BY_EXTENSION[extension]! : extension
  if (!Object.values(formats).includes(format))
    throw refuse(`this provider takes ${what} as ${listed(formats)}; the address must end so`, param)
  return { format, source: { s3Location: { uri: url } } }
}

export const imageBlock = (part: Json, param: string): Record<string, unknown> => {
  const url = textOf(part.image_url) ?? textOf(objectOf(part.image_url).url)
  if (url === null) throw refuse('image_url needs a url', `${param}.image_url`)
  return { image: located(url, IMAGES, null, 'images', `${param}.image_url.url`) }
}

const MOST_NAME = 200

/**
 * A name in the form that Converse accepts: letters, digits, single spaces, hyphens, brackets; unique within a
 * request.
 */
const documentName = (filename: unknown, taken: Set<string>): string => {
  const given = typeof filename === 'string' ? filename.replace(/\.\w{1,8}$/, '') : ''
  const plain = given
    .replace(/[^A-Za-z0-9\s()[\]-]/g, '-')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, MOST_NAME - 8)
    .trim()
  const base = plain === '' ? 'document' : plain
  let name = base
  for (let n = 2; taken.has(name); n++) name = `${base}-${n}`
  taken.add(name)
  return name
}

export const documentBlock = (part: Json, param: string, taken: Set<string>): Record<string, unknown> => {
  const file = objectOf(part.file)
  const url = textOf(file.file_data)
  if (url === null) throw refuse('this provider takes files as file_data only', `${param}.file`)
  const { format, source } = located(url, DOCUMENTS, 'text/plain', 'files', `${param}.file.file_data`)
  return { document: { format, name: documentName(file.filename, taken), source } }
}

export const audioBlock = (part: Json, param: string): Record<string, unknown> => {
  const { data, format } = objectOf(part.input_audio)
  if (typeof data !== 'string' || typeof format !== 'string')
    throw refuse('input_audio needs data and format', `${param}.input_audio`)
  return { audio: { format, source: { bytes: data } } }
}
