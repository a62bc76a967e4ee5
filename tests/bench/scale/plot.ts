// Plots the rows of the scale bench: a panel for each quantity that grows, CPU for a request over its size. Returns the
// text of an SVG; needs no dependency.
import type { Row } from './measure.ts'

const PANEL = { width: 300, height: 220, left: 52, right: 14, top: 34, bottom: 40 }
const COLUMNS = 3
const COLOURS = { gatelog: '#1668b8', bare: '#8a8f98', grid: '#d9dde3', text: '#3a3f47' }
const TITLES: Readonly<Record<string, string>> = {
  models: 'models, all asked for',
  registry: 'models, ten asked for',
  keys: 'API keys',
  policies: 'policies',
  candidates: 'candidates of a request',
  streams: 'streams held open',
  prompt: 'bytes of the prompt',
}

const short = (value: number): string =>
  value >= 1e6 ? `${value / 1e6} M` : value >= 1e3 ? `${value / 1e3} k` : String(value)

/** The next number of the form 1, 2 or 5 times a power of ten. */
const roundUp = (value: number): number => {
  const power = 10 ** Math.floor(Math.log10(value))
  return [1, 2, 5, 10].map((step) => step * power).find((each) => each >= value)!
}

type Scale = (value: number) => number

const line = (rows: readonly Row[], x: Scale, y: Scale, pick: (row: Row) => number, colour: string): string => {
  const points = rows.map((row) => `${x(row.at).toFixed(1)},${y(pick(row)).toFixed(1)}`)
  const dots = points.map((point) => {
    const [cx, cy] = point.split(',')
    return `<circle cx="${cx}" cy="${cy}" r="3" fill="${colour}"/>`
  })
  return `<polyline points="${points.join(' ')}" fill="none" stroke="${colour}" stroke-width="2"/>${dots.join('')}`
}

const panel = (by: string, rows: readonly Row[]): string => {
  const { width, height, left, right, top, bottom } = PANEL
  const [least, most] = [rows[0]!.at, rows.at(-1)!.at]
  const span = Math.max(1e-9, Math.log(most / least))
  const x = (value: number) => left + (Math.log(value / least) / span) * (width - left - right)
  const highest = roundUp(Math.max(...rows.flatMap(({ cpuUs, bareCpuUs }) => [cpuUs, bareCpuUs])))
  const y = (value: number) => height - bottom - (value / highest) * (height - top - bottom)
  const text = (at: number, down: number, words: string, anchor: string, more = '') =>
    `<text x="${at.toFixed(1)}" y="${down.toFixed(1)}" text-anchor="${anchor}" ` +
    `fill="${COLOURS.text}" ${more}>${words}</text>`
  const grid = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const at = y(share * highest)
    const rule = `<line x1="${left}" x2="${width - right}" y1="${at}" y2="${at}" stroke="${COLOURS.grid}"/>`
    return rule + text(left - 6, at + 4, short(share * highest), 'end')
  })
  return [
    text(left, 18, `CPU us/request by ${TITLES[by] ?? by}`, 'start', 'font-weight="600"'),
    ...grid,
    ...rows.map(({ at }) => text(x(at), height - bottom + 16, short(at), 'middle')),
    line(rows, x, y, ({ bareCpuUs }) => bareCpuUs, COLOURS.bare),
    line(rows, x, y, ({ cpuUs }) => cpuUs, COLOURS.gatelog),
    ...rows.map(({ at, cpuUs, toSmallest }) =>
      toSmallest === null ? '' : text(x(at), y(cpuUs) - 8, toSmallest.toFixed(2), 'middle', 'font-size="9"'),
    ),
  ].join('\n')
}

/** Rows of each panel in rising order. */
export const plotOf = (rows: readonly Row[]): string => {
  const names = [...new Set(rows.map(({ by }) => by))]
  const lines = Math.ceil(names.length / COLUMNS)
  const [width, height] = [COLUMNS * PANEL.width, lines * PANEL.height + 24]
  const panels = names.map((by, i) => {
    const [left, top] = [(i % COLUMNS) * PANEL.width, Math.floor(i / COLUMNS) * PANEL.height]
    return `<g transform="translate(${left} ${top})">\n${panel(
      by,
      rows.filter((row) => row.by === by),
    )}\n</g>`
  })
  const legend =
    `<g transform="translate(${PANEL.left} ${height - 10})"><circle r="4" cy="-4" fill="${COLOURS.gatelog}"/><text ` +
    `x="8" fill="${COLOURS.text}">Gatelog</text><circle r="4" cx="70" cy="-4" fill="${COLOURS.bare}"/><text x="78" ` +
    `fill="${COLOURS.text}">bare proxy, same rounds; small figures: to the smallest gateway in the same ` +
    'rounds</text></g>'
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui, sans-serif" font-size="11">\n<rect width="100%" height="100%" fill="#ffffff"/>\n${panels.join('\n')}\n${legend}\n</svg>\n`
}
