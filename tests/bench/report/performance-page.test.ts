// Where `bench -- targets --record` puts its table.
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { between } from './performance-page.ts'

const PAGE = readFileSync(join(import.meta.dir, '../../../docs/performance.md'), 'utf8')

describe('the table of the performance page', () => {
  test('replaces the one before and nothing else', () => {
    const first = between(PAGE, '| first |')
    const second = between(first, '| second |')
    expect(second).toContain('\n| second |\n')
    expect(second).not.toContain('| first |')
    const around = (page: string) => [page.split('<!-- targets: begin -->')[0], page.split('<!-- targets: end -->')[1]]
    expect(around(second)).toEqual(around(PAGE))
    expect(around(PAGE)[1]).not.toBeUndefined()
  })

  test('is refused where the page has no place for it', () => {
    expect(() => between('# Performance', '| row |')).toThrow('no place for the table')
    expect(() => between('<!-- targets: end --> <!-- targets: begin -->', '| row |')).toThrow('no place for the table')
  })
})
