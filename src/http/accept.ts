// Chooses between HTML and JSON by the `Accept` header.

const WEIGHT = /^q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/i

/**
 * Weight of a media type, 0 to 1; an invalid weight is 0. Null: the header does not name it. Ranges such as `text/*` do
 * not count.
 */
const weightOf = (accept: string, type: string): number | null => {
  let most: number | null = null
  for (const range of accept.split(',')) {
    const [named, ...parameters] = range.split(';').map((part) => part.trim())
    if (named!.toLowerCase() !== type) continue
    const said = parameters.find((parameter) => /^q\s*=/i.test(parameter))
    const weight = said === undefined ? 1 : Number(WEIGHT.exec(said)?.[1] ?? 0)
    most = Math.max(most ?? 0, weight)
  }
  return most
}

/**
 * Browsers name `text/html`; curl and SDKs send `*` or JSON. A client that prefers JSON, or excludes HTML (`q=0`), gets
 * JSON.
 */
export const wantsHtml = (accept: string | null): boolean => {
  const html = weightOf(accept ?? '', 'text/html') ?? 0
  return html > 0 && html >= (weightOf(accept ?? '', 'application/json') ?? 0)
}
