// Name of a built-in tool -> the code that executes it.
import type { BUILTIN_TOOLS } from '../../../domain/registry/builtin-tools.ts'
import { calculator } from './calculator.ts'
import { currentTime } from './current-time.ts'
import type { ToolHandler } from './handler.ts'
import { httpGet } from './http-get.ts'
import { jsonQuery } from './json-query.ts'
import { textSearch } from './text-search.ts'

export const BUILTIN_HANDLERS: Readonly<Record<keyof typeof BUILTIN_TOOLS, ToolHandler>> = {
  current_time: currentTime,
  calculator,
  json_query: jsonQuery,
  text_search: textSearch,
  http_get: httpGet,
}
