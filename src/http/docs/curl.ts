// Builds the shell command that calls an operation. The address is a shell variable of the reader.
import type { OpenApiDocument } from './document.ts'
import { type Operation, type Parameter, resolved } from './operation.ts'

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** The credential of the operation, or the default of the document: a key, a session alone, or nothing. */
const credential = ({ security }: Operation, { components }: OpenApiDocument): string[] => {
  const kinds = (security ?? [{ key: [] }]).flatMap((each) => Object.keys(each))
  if (kinds.length === 0) return []
  if (!kinds.includes('key')) return ['-b "gateway_session=$SESSION"']
  const { in: place, name } = components.securitySchemes.key as unknown as { in?: string; name?: string }
  return [place === 'header' ? `-H "${name}: $KEY"` : '-H "Authorization: Bearer $KEY"']
}

/** Bodies of operations without an example of their own. */
const EXAMPLE_BODIES: Readonly<Record<string, unknown>> = {
  createChatCompletion: { model: 'sandbox-echo', messages: [{ role: 'user', content: 'Hello' }] },
  giveFeedback: { request_id: 'req_1', score: 1 },
}

export const curlOf = (method: string, path: string, operation: Operation, document: OpenApiDocument): string => {
  const parameters = (operation.parameters ?? []).map((each) => resolved(each, document) as unknown as Parameter)
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const example = parameters.find((each) => each.in === 'path' && each.name === name)?.example
    return typeof example === 'string' ? example : `$${name.toUpperCase()}`
  })
  const body = operation.requestBody?.content['application/json']?.example ?? EXAMPLE_BODIES[operation.operationId]
  const sent = body === undefined ? [] : ["-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`]
  const verb = method === 'GET' || (method === 'POST' && body !== undefined) ? [] : [`-X ${method}`]
  return ['curl', ...verb, `"$GATEWAY${filled}"`, ...credential(operation, document), ...sent].join(' \\\n  ')
}
