// The pages of `docs/decisions/`: each has a number, a status and a line in the index, and refers only to files of the
// repository.
import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const FOLDER = join(import.meta.dir, '../docs/decisions')
const PAGES = readdirSync(FOLDER).filter((name) => /^\d{4}-[a-z0-9-]+\.md$/.test(name))
const STATUS = /^Status: (accepted|withdrawn|superseded by \[\d+\]\(\d{4}-[a-z0-9-]+\.md\)) \(\d{4}-\d{2}-\d{2}/m
const PAGE_LINES = 60
const textOf = (name: string) => readFileSync(join(FOLDER, name), 'utf8')

describe('the decisions', () => {
  test('have the number of their file, a title and a status', () => {
    const flawed = PAGES.filter((name) => {
      const number = /^# (\d+)\. \S/.exec(textOf(name))?.[1]
      return Number(number) !== Number(name.slice(0, 4)) || !STATUS.test(textOf(name))
    })
    expect(flawed).toEqual([])
    expect(new Set(PAGES.map((name) => name.slice(0, 4))).size).toBe(PAGES.length)
  })

  test('stand in the index in their order, with title and status', () => {
    const rows = PAGES.sort().map((name) => {
      const [, number, title] = /^# (\d+)\. (.*)$/m.exec(textOf(name))!
      return `| ${number} | [${title}](${name}) | ${STATUS.exec(textOf(name))![1]} |`
    })
    const index = textOf('README.md').split('\n')
    expect(index.filter((line) => /^\| \d+ \|/.test(line))).toEqual(rows)
  })

  test('are short', () => {
    const long = PAGES.filter((name) => textOf(name).trimEnd().split('\n').length > PAGE_LINES)
    expect(long).toEqual([])
  })

  test('refer to pages that exist and to no document outside the repository', () => {
    const broken = [...PAGES, 'README.md'].flatMap((name) => {
      const links = [...textOf(name).matchAll(/\]\((\d{4}-[^)#]+|README\.md)/g)].map(([, to]) => to!)
      const absent = links.filter((to) => !existsSync(join(FOLDER, to)))
      const outside = /\bDESIGN\b|specification \d|\brulings?\b/.exec(textOf(name))?.[0]
      return [...absent, ...(outside === undefined ? [] : [outside])].map((what) => `${name}: ${what}`)
    })
    expect(broken).toEqual([])
  })
})
