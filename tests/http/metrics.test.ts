// The metrics are documented, drawn, and served under the names that the documents and the dashboard use.
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { metricsTable } from '../../src/commands/metrics.ts'
import type { Telemetry } from '../../src/http/metrics/telemetry.ts'
import { entry, policyRow, type TestGateway } from '../inference/gateway.ts'
import { gatewaysOnUpstream } from './gateways.ts'

const ROOT = join(import.meta.dir, '../..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const { upstream, gatewayWith } = gatewaysOnUpstream()
const scraped = async (gateway: TestGateway) => (await gateway.send('/metrics', { key: null })).text()
const ask = async (gateway: TestGateway, more: object = {}) => {
  const answer = await gateway.chat({ model: 'small', messages: [{ role: 'user', content: 'x' }], ...more })
  await answer.text()
  return answer.status
}

/** Names in PromQL, without what a histogram adds. */
const namesIn = (text: string) =>
  new Set([...text.matchAll(/\bgateway_[a-z0-9_]+/g)].map(([name]) => name.replace(/_(bucket|sum|count)$/, '')))

describe('the documents', () => {
  test('docs/metrics.md holds the table that `gateway metrics` prints', () => {
    expect(read('docs/metrics.md')).toContain(metricsTable())
  })

  test('the dashboard and the alerts name metrics that are served, and the dashboard shows each', async () => {
    const served = new Set([...(await scraped(gatewayWith())).matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!))
    const { panels } = JSON.parse(read('infra/grafana/gatelog.json')) as {
      panels: { id: number; targets?: { expr: string }[] }[]
    }
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    const shown = namesIn(panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)).join('\n'))
    const alerted = namesIn(read('infra/prometheus/gatelog-rules.yml'))
    expect([...shown, ...alerted].filter((name) => !served.has(name))).toEqual([])
    expect([...served].filter((name) => !shown.has(name))).toEqual([])
  })
})

describe('/metrics', () => {
  test('counts what happens at the door of the console by outcome alone', async () => {
    expect(await scraped(gatewayWith())).toContain('\ngateway_dashboard_auth_events_total{outcome="login_failed"} 0\n')
  })

  test('counts by status, provider and model, with the attempts of a failover', async () => {
    const backup = entry({ provider: 'beta', baseUrl: upstream.baseUrl, priority: 200 })
    const gateway = gatewayWith({ entries: [entry({ baseUrl: 'http://127.0.0.1:9/v1' }), backup] })
    expect(await ask(gateway)).toBe(200)
    expect(await ask(gateway, { model: 'a-name-that-a-stranger-chose' })).toBe(404)
    const text = await scraped(gateway)
    expect(text).toContain('gateway_responses_total{status="200"} 1')
    expect(text).toContain('gateway_responses_total{status="404"} 1')
    expect(text).toContain('gateway_model_requests_total{provider="beta",model="small",outcome="success"} 1')
    expect(text).toContain('gateway_model_tokens_total{provider="beta",model="small",direction="prompt"} 11')
    expect(text).toContain('gateway_model_cost_usd_total{provider="beta",model="small"} 0.000025')
    expect(text).toContain('gateway_attempts_total{provider="alpha",outcome="error",code="upstream_error"} 2')
    expect(text).toContain('gateway_attempts_total{provider="beta",outcome="success",code="none"} 1')
    expect(text).toContain('gateway_attempt_duration_seconds_count{provider="beta"} 1')
    expect(text).toContain('gateway_failovers_total{provider="beta"} 1')
    expect(text).not.toContain('stranger')
  })

  test('counts an outcome as not recorded only when something was sent to a provider', async () => {
    const gateway = gatewayWith()
    const unrecorded = async () =>
      /^gateway_outcomes_unrecorded_total (\d+)$/m.exec(await scraped(gateway))?.[1] ?? 'not there'
    gateway.spool.open = false // the disk is full: refused before any call
    expect(await ask(gateway)).toBeGreaterThanOrEqual(429)
    expect(await ask(gateway, { model: 'unknown-model' })).toBeGreaterThanOrEqual(400)
    expect(await unrecorded()).toBe('0')
    gateway.spool.open = true
    gateway.spool.before = (type) => {
      if (type === 'request.settled') throw new Error('the disk fails')
    }
    expect(await ask(gateway)).toBe(500)
    expect(await unrecorded()).toBe('1')
  })

  test('names the budgets that are nearest to their limits, and how leases fare', async () => {
    const figure = { id: 'bud_1', limitNanoUsd: 2_000_000_000, spentNanoUsd: 500_000_000, reservedNanoUsd: 250_000_000 }
    const asked: number[] = []
    const budgets: Telemetry['budgets'] = (most) => {
      asked.push(most)
      const nearest = [
        { ...figure, leftShare: 0.625 },
        { ...figure, id: 'bud_2', limitNanoUsd: null, leftShare: null },
      ]
      return { nearest, inUse: 70, closed: 1, leases: 3, waiting: 2, downMs: 1_500 }
    }
    const text = await scraped(gatewayWith({ telemetry: { budgets } }))
    expect(text).toContain('gateway_budget_spent_usd{budget="bud_1"} 0.5')
    expect(text).toContain('gateway_budget_remaining_usd{budget="bud_1"} 1.25')
    expect(text).toContain('gateway_budget_remaining_ratio{budget="bud_1"} 0.625')
    expect(text).not.toContain('gateway_budget_limit_usd{budget="bud_2"}')
    for (const line of ['budgets 70', 'budgets_closed 1', 'budget_leases 3', 'budget_requests_waiting 2'])
      expect(text).toContain(`\ngateway_${line}\n`)
    expect(text).toContain('gateway_budget_log_down_seconds 1.5')
    expect(asked).toEqual([64])
  })

  test('shows the read models as their worker reports them, and as unknown when Postgres does not answer', async () => {
    const view = { model: 'requests', lagMs: 2_500, behindRecords: 7, poisonRecords: 1, ageMs: 900 }
    const known = await scraped(gatewayWith({ telemetry: { projections: async () => [view] } }))
    expect(known).toContain('gateway_projection_known 1')
    expect(known).toContain('gateway_projection_lag_seconds{model="requests"} 2.5')
    expect(known).toContain('gateway_projection_behind_records{model="requests"} 7')
    expect(known).toContain('gateway_projection_poison_records{model="requests"} 1')
    expect(known).toContain('gateway_projection_report_age_seconds{model="requests"} 0.9')
    const failing: Telemetry[] = [
      { projections: () => Promise.reject(new Error('postgres://user:secret@host')) },
      { projections: () => new Promise(() => {}) },
    ]
    for (const telemetry of failing) {
      const text = await scraped(gatewayWith({ telemetry }))
      expect(text).toContain('gateway_projection_known 0')
      expect(text).not.toContain('gateway_projection_lag_seconds{')
      expect(text).not.toContain('secret')
    }
  })

  test('says what the sender does', async () => {
    const sending = () => ({ stuck: true, shipped: 12, resent: 3, refused: 1, damagedBytes: 64, lagMs: 1_500 })
    const text = await scraped(gatewayWith({ telemetry: { sending } }))
    expect(text).toContain('# TYPE gateway_sender_shipped_total counter')
    for (const line of ['stuck 1', 'shipped_total 12', 'resent_total 3', 'refused_total 1', 'lag_seconds 1.5'])
      expect(text).toContain(`gateway_sender_${line}`)
  })

  test('says what the disk refused of the spool', async () => {
    const text = await scraped(gatewayWith({ telemetry: { disk: () => ({ writeFailures: 2, syncFailures: 3 }) } }))
    expect(text).toContain('gateway_spool_write_failures_total 2')
    expect(text).toContain('gateway_spool_sync_failures_total 3')
  })

  test('counts refusals by the limit that was reached', async () => {
    const gateway = gatewayWith({ policies: [policyRow({ rate_limits: { rpm: 1 } })] })
    expect([await ask(gateway), await ask(gateway)]).toEqual([200, 429])
    expect(await scraped(gateway)).toContain('gateway_limits_denied_total{limit="rpm"} 1')
  })
})
