// `http_get`: reads a text document. The hosts that may be read, the dialer and its bounds are those of the context.
import type { ToolHandler } from './handler.ts'

/** `{"status", "content_type", "text", "truncated"}` */
export const httpGet: ToolHandler = async ({ url }, { readText, signal }) => {
  const { status, contentType, text, truncated } = await readText(url as string, signal)
  return JSON.stringify({ status, content_type: contentType, text, truncated })
}
