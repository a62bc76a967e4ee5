import { describe, expect, test } from 'bun:test'
import { createDiagnostics, type DiagnosticLevel } from '../../../src/lib/process/diagnostics.ts'

const collect = (level: DiagnosticLevel = 'info', readable = false) => {
  const lines: string[] = []
  const clock = { nowMs: Date.UTC(2026, 0, 1) }
  const diagnostics = createDiagnostics({
    level,
    readable,
    write: (line) => lines.push(line),
    nowMs: () => clock.nowMs,
  })
  return { lines, clock, diagnostics }
}

describe('diagnostics', () => {
  test('an event is one JSON line with its time, level, name and fields', () => {
    const { lines, diagnostics } = collect()
    diagnostics.warn('log_unreachable', { broker: 'a:9092', attempts: 3, since: undefined })
    expect(lines).toEqual([
      '{"at":"2026-01-01T00:00:00.000Z","level":"warn","event":"log_unreachable","broker":"a:9092","attempts":3}\n',
    ])
  })

  test('on a terminal it is readable', () => {
    const { lines, diagnostics } = collect('info', true)
    diagnostics.info('started', { url: 'http://127.0.0.1:1', why: 'two words' })
    expect(lines).toEqual(['00:00:00.000 info  started url=http://127.0.0.1:1 why="two words"\n'])
  })

  test('below the level nothing is built', () => {
    const { lines, diagnostics } = collect('error')
    const fields = {
      get costly(): string {
        throw new Error('it was read')
      },
    }
    diagnostics.warn('quiet', fields)
    expect(lines).toEqual([])
  })

  test('an error is its message and the message of its cause, without a stack', () => {
    const { lines, diagnostics } = collect()
    diagnostics.error('failed', { error: new Error('append failed', { cause: new Error('disk full') }) })
    expect(JSON.parse(lines[0]!)).toMatchObject({ error: 'append failed (disk full)' })
  })

  test('keys and bearer values never leave', () => {
    const { lines, diagnostics } = collect()
    const key = `gw_live_${'a'.repeat(43)}`
    diagnostics.error('odd', { error: new Error(`bad key ${key}`), header: 'Bearer sk-123', deep: { key } })
    expect(lines[0]).not.toContain('aaaa')
    expect(lines[0]).not.toContain('sk-123')
  })

  test('a line is bounded', () => {
    const { lines, diagnostics } = collect()
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`f${i}`, 'x'.repeat(10_000)]))
    diagnostics.info('large', many)
    expect(lines[0]!.length).toBeLessThan(40_000)
  })

  test('a flood of one event is cut, counted, and does not silence others', () => {
    const { lines, clock, diagnostics } = collect()
    for (let i = 0; i < 500; i++) diagnostics.warn('flood')
    diagnostics.warn('other')
    expect(lines.length).toBe(21)
    clock.nowMs += 1_000
    diagnostics.warn('flood')
    expect(JSON.parse(lines.at(-1)!)).toMatchObject({ event: 'flood', suppressed: 480 })
  })
})
