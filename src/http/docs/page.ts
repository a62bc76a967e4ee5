// The document as a page: plain HTML and one style sheet, without scripts and without resources of other hosts.
import { pageHeaders } from '../page-headers.ts'
import type { OpenApiDocument } from './document.ts'
import { type Content, type Operation, type Parameter, resolved } from './operation.ts'
import { schemaText } from './schema-text.ts'

const STYLE = `
:root{color-scheme:light dark;--line:#8884;--soft:#8882;--link:#06c}
@media (prefers-color-scheme:dark){:root{--link:#7bf}}
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;margin:0;\
display:grid;grid-template-columns:19rem minmax(0,1fr)}
a{color:var(--link);text-decoration:none}a:hover,a:focus-visible{text-decoration:underline}
nav{height:100vh;overflow:auto;position:sticky;top:0;padding:1rem;border-right:1px solid var(--line);font-size:13px}
nav ul{list-style:none;margin:0 0 .5rem;padding:0}\
nav li{overflow-wrap:anywhere;padding:1px 0}nav summary{cursor:pointer;font-weight:600}
main{padding:1rem 2rem 6rem;max-width:64rem}\
section{border-top:1px solid var(--line);margin-top:2rem;padding-top:.5rem;scroll-margin-top:1rem}
h1{margin:.2rem 0}h2{margin-top:3rem}h3{margin:.5rem 0;font-size:1.05rem;overflow-wrap:anywhere}h4{margin:1rem 0 .3rem}
code,pre{font:13px/1.45 ui-monospace,monospace}\
pre{background:var(--soft);padding:.7rem;overflow:auto;border-radius:4px;margin:.3rem 0}
table{border-collapse:collapse;width:100%}\
td,th{text-align:left;vertical-align:top;padding:.25rem .6rem .25rem 0;\
border-bottom:1px solid var(--line);overflow-wrap:anywhere}
.m{display:inline-block;min-width:4.2em;font:600 12px ui-monospace,monospace}.q{opacity:.75}
@media (max-width:52rem){body{display:block}nav{position:static;height:auto;border-right:0;\
border-bottom:1px solid var(--line)}main{padding:1rem}}
`

export const PAGE_HEADERS = pageHeaders(STYLE)

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (character) => ESCAPES[character]!)
/** HTML of a text; pieces between backquotes become code. */
const prose = (text: string): string => escaped(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>')

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** The credential of the operation, or the default of the document: a key, a session alone, or nothing. */
const credential = ({ security }: Operation, { components }: OpenApiDocument): string[] => {
  const kinds = (security ?? [{ key: [] }]).flatMap((each) => Object.keys(each))
  if (kinds.length === 0) return []
  if (!kinds.includes('key')) return ['-b "gateway_session=$SESSION"']
  const { in: place, name } = components.securitySchemes.key as unknown as { in?: string; name?: string }
  return [place === 'header' ? `-H "${name}: $KEY"` : '-H "Authorization: Bearer $KEY"']
}

/** Bodies that succeed on every installation, in place of the example. */
const SENT_BODIES: Readonly<Record<string, unknown>> = {
  createChatCompletion: { model: 'sandbox-echo', messages: [{ role: 'user', content: 'Hello' }] },
}

/** The shell command that calls an operation. The address is a shell variable of the reader. */
const curlOf = (method: string, path: string, operation: Operation, document: OpenApiDocument): string => {
  const parameters = (operation.parameters ?? []).map((each) => resolved(each, document) as unknown as Parameter)
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const example = parameters.find((each) => each.in === 'path' && each.name === name)?.example
    return typeof example === 'string' ? example : `$${name.toUpperCase()}`
  })
  const body = SENT_BODIES[operation.operationId] ?? operation.requestBody?.content['application/json']?.example
  const sent = body === undefined ? [] : ["-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`]
  const verb = method === 'GET' || (method === 'POST' && body !== undefined) ? [] : [`-X ${method}`]
  return ['curl', ...verb, `"$GATEWAY${filled}"`, ...credential(operation, document), ...sent].join(' \\\n  ')
}

interface Entry {
  readonly method: string
  readonly path: string
  readonly operation: Operation
}

const entriesOf = ({ paths }: OpenApiDocument): Entry[] =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      operation: operation as unknown as Operation,
    })),
  )

const parameterRow = ({ name, in: place, required, description = '', schema }: Parameter): string =>
  `<tr><td><code>${escaped(name)}</code><br><span class="q">${place}${required ? ', required' : ''}</span></td>` +
  `<td><code>${escaped(schemaText(schema))}</code></td><td>${prose(description)}</td></tr>`

const parametersTable = (parameters: readonly Parameter[]): string =>
  parameters.length === 0 ? '' : `<h4>Parameters</h4><table>${parameters.map(parameterRow).join('')}</table>`

const bodyPart = ({ requestBody }: Operation): string => {
  const content = requestBody?.content['application/json']
  if (requestBody === undefined || content === undefined) return ''
  const about = requestBody.description === undefined ? '' : `<p>${prose(requestBody.description)}</p>`
  const word = requestBody.required === true ? '' : ' (optional)'
  return `<h4>Body${word}</h4>${about}<pre>${escaped(schemaText(content.schema))}</pre>`
}

const answerRow = (status: string, raw: unknown, document: OpenApiDocument): string => {
  const answer = resolved(raw, document)
  const content: Readonly<Record<string, Content>> = answer.content ?? {}
  const types = Object.keys(content).join(', ')
  const schema = Number(status) < 300 ? content['application/json']?.schema : undefined
  const shape = schema === undefined ? '' : `<pre>${escaped(schemaText(schema))}</pre>`
  const names = Object.keys(answer.headers ?? {}).join(', ')
  const small = [types, names].filter((text) => text !== '').join('; ')
  const more = Number(status) < 300 && small !== '' ? `<br><span class="q">${escaped(small)}</span>` : ''
  return `<tr><td><code>${status}</code></td><td>${prose(answer.description)}${more}${shape}</td></tr>`
}

const section = ({ method, path, operation }: Entry, document: OpenApiDocument): string => {
  const parameters = (operation.parameters ?? []).map((each) => resolved(each, document) as unknown as Parameter)
  const answers = Object.entries(operation.responses).map(([status, raw]) => answerRow(status, raw, document))
  return (
    `<section id="${operation.operationId}"><h3><span class="m">${method}</span> <code>${escaped(path)}</code></h3>` +
    `<p>${prose(operation.summary)}.</p>` +
    (operation.description === undefined ? '' : `<p class="q">${prose(operation.description)}</p>`) +
    parametersTable(parameters) +
    bodyPart(operation) +
    `<h4>Answers</h4><table>${answers.join('')}</table>` +
    `<h4>Example</h4><pre>${escaped(curlOf(method, path, operation, document))}</pre></section>`
  )
}

const contents = (tag: string, entries: readonly Entry[]): string => {
  const lines = entries.map(
    ({ method, path, operation }) =>
      `<li><a href="#${operation.operationId}"><span class="m">${method}</span> ${escaped(path)}</a></li>`,
  )
  const summary = `<summary><a href="#tag-${tag}">${escaped(tag)}</a></summary>`
  return `<details open>${summary}<ul>${lines.join('')}</ul></details>`
}

const schemaSection = (name: string, document: OpenApiDocument): string =>
  `<section id="schema-${name}"><h3>${escaped(name)}</h3>` +
  `<pre>${escaped(schemaText(document.components.schemas[name]))}</pre></section>`

/** The whole page. */
export const docsPage = (document: OpenApiDocument): string => {
  const byTag = Map.groupBy(entriesOf(document), ({ operation }) => operation.tags[0]!)
  const schemas = Object.keys(document.components.schemas)
  const title = escaped(`${document.info.title} ${document.info.version}`)
  const navigation = [...byTag].map(([tag, entries]) => contents(tag, entries)).join('')
  const schemaLinks = schemas.map((name) => `<li><a href="#schema-${name}">${escaped(name)}</a></li>`).join('')
  const chapters = [...byTag].map(
    ([tag, entries]) =>
      `<h2 id="tag-${tag}">${escaped(tag)}</h2>${entries.map((entry) => section(entry, document)).join('')}`,
  )
  return (
    `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title>` +
    '<meta name="viewport" content="width=device-width,initial-scale=1">' +
    `<style>${STYLE}</style></head><body><nav aria-label="Contents">${navigation}` +
    `<details><summary>Schemas</summary><ul>${schemaLinks}</ul></details></nav>` +
    `<main><h1>${title}</h1><p>${prose(document.info.description)}</p>` +
    `<p>For programs: <a href="/openapi.json">/openapi.json</a>.</p>` +
    `${chapters.join('')}<h2>Schemas</h2>` +
    `${schemas.map((name) => schemaSection(name, document)).join('')}</main></body></html>`
  )
}
