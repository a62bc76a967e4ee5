// A URL that may hold secrets, in a form that may be shown.

const REDACTED = '[redacted]'

/**
 * Scheme, host and path; login and query are replaced by `[redacted]`. So is all of a text that is no URL with `//`, or
 * in which an unencoded `@`, `/`, `?` or `#` in the password may have moved a part of it behind the host.
 */
export const redactedUrl = (text: string): string => {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text) || !URL.canParse(text)) return REDACTED
  const { protocol, username, password, host, pathname, search, hash } = new URL(text)
  if ([pathname, search, hash].some((part) => /@|%40/i.test(part))) return REDACTED
  const login = username === '' && password === '' ? '' : `${REDACTED}@`
  const query = search === '' && hash === '' ? '' : `?${REDACTED}`
  return `${protocol}//${login}${host}${pathname === '/' ? '' : pathname}${query}`
}
