// The URL and the credential of a request, as most kinds build them.

/** `<base>/chat/completions`, also when the base has a query (`?api-version=`) or slashes at its end. */
export const joinUrl = (baseUrl: string, path: string): string => {
  const hash = baseUrl.indexOf('#')
  const whole = hash === -1 ? baseUrl : baseUrl.slice(0, hash)
  const query = whole.indexOf('?')
  const base = query === -1 ? whole : whole.slice(0, query)
  let end = base.length
  while (base.charCodeAt(end - 1) === 47) end--
  return `${base.slice(0, end)}${path}${query === -1 ? '' : whole.slice(query)}`
}

export const bearer = (secret: string | null): Readonly<Record<string, string>> =>
  secret === null ? {} : { authorization: `Bearer ${secret}` }
