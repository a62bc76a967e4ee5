// `json_query`: JMESPath over a document that the model supplies. An expression cannot reach the whole document from a
// part of it, so it takes about as long as the document is large, times what the expression multiplies it by: that is
// bounded before the expression runs.
import { compile, type Expression, search } from 'jmespath'
import { ToolFailure, type ToolHandler } from './handler.ts'

/** UTF-16 units of the document times the growth of the expression. */
const MOST_WORK = 8 * 1024 * 1024
const MOST_RESULT = 64 * 1024
const MOST_GLUE = 16

/**
 * By how much an expression can make its input larger. Throws for a `join` with a separator that is not a short
 * literal.
 */
const growthOf = ({ type, name, value, children = [] }: Expression): number => {
  let growth = 1
  if (type === 'MultiSelectList' || type === 'MultiSelectHash') growth = children.length
  if (type === 'Function') {
    if (name === 'merge') growth = children.length
    // Quotes are escaped, and escapes again.
    if (name === 'to_string') growth = 2
    if (name === 'join') {
      const glue = children[0]
      if (glue?.type !== 'Literal' || typeof glue.value !== 'string' || glue.value.length > MOST_GLUE)
        throw new ToolFailure('bad_arguments', `"join" needs a literal of at most ${MOST_GLUE} characters`)
      growth = MOST_GLUE
    }
  }
  const parts = type === 'KeyValuePair' ? [value as Expression] : children
  for (const part of parts) {
    growth *= growthOf(part)
    if (growth > MOST_WORK) return growth
  }
  return growth
}

/** What the library refuses is a mistake of the expression. */
const orRefused = <Result>(act: () => Result): Result => {
  try {
    return act()
  } catch (error) {
    if (error instanceof ToolFailure) throw error
    const message = error instanceof RangeError ? 'it is nested too deeply' : (error as Error).message.slice(0, 200)
    throw new ToolFailure('bad_arguments', `the expression cannot be used: ${message}`)
  }
}

/** The selected value as JSON text. */
export const jsonQuery: ToolHandler = ({ data, expression }) => {
  const text = expression as string
  const growth = orRefused(() => growthOf(compile(text)))
  const size = JSON.stringify(data).length + text.length
  if (growth * size > MOST_WORK)
    throw new ToolFailure('too_large', 'the expression could make the document too large: select less of it')
  const result = JSON.stringify(orRefused(() => search(data, text))) ?? 'null'
  if (result.length > MOST_RESULT)
    throw new ToolFailure('too_large', `the result has more than ${MOST_RESULT} characters: select less`)
  return result
}
