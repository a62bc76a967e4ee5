// Example bodies of writes, by method and path of the route table. A test checks them against the schemas.

const ID = '0199a0c4-7a10-7cc1-9d2e-3f5b8a6c1d20'

export const EXAMPLES: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  'POST /tenants': { slug: 'acme', name: 'Acme', plan: 'team' },
  'PUT /tenants/:id': { name: 'Acme Ltd', plan: 'team', rate_limits: { rpm: 600, tpm: 200_000, max_parallel: 20 } },
  'POST /keys': { tenant_id: `ten_${ID}`, name: 'backend', scopes: ['inference'], expires_in_hours: 720 },
  'PATCH /keys/:id': { name: 'backend', expires_at: '2027-01-31T12:00:00Z' },
  'POST /providers': { name: 'openai', kind: 'openai', api_key_env: 'OPENAI_API_KEY' },
  'PUT /providers/:id': { kind: 'openai', api_key_env: 'OPENAI_API_KEY', timeout_ms: 60_000 },
  'PATCH /providers/:id': { status: 'disabled' },
  'PUT /providers/:id/credential': { secret: 'the secret of the provider', name: 'production', sync_models: true },
  'POST /providers/:id/test': { checks: ['connectivity', 'models'] },
  'POST /providers/:id/detect-capabilities': { models: ['gpt-4o-mini'] },
  'POST /providers/:id/kill': { kill: true, reason: 'answers are wrong since noon' },
  'POST /models': { name: 'gpt-4o-mini', provider_id: `prov_${ID}`, aliases: ['small'], priority: 10 },
  'PUT /models/:id': { aliases: ['small'], input_cost_per_million: 0.15, output_cost_per_million: 0.6 },
  'PATCH /models/:id': { enabled: false },
  'POST /policies': { name: 'default', strategy: 'lowest_cost', max_cost_usd: 0.05 },
  'PUT /policies': { name: 'default', strategy: 'balanced', fallback: { enabled: true, max_attempts: 3 } },
  'PUT /endpoints': { slug: 'support', name: 'Support', overrides: { preferred_models: ['small'] } },
  'PUT /budgets': { tenant_id: `ten_${ID}`, window: 'month', limit_usd: 100, alert_thresholds: [0.8, 1] },
  'PUT /cache/policies': { name: 'support', ttl_seconds: 3600, enabled: true, scopes: ['endpoint:support'] },
  'POST /tools': {
    name: 'weather',
    description: 'The weather of a city',
    safety: 'safe',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
  'PUT /tools/:id': { description: 'The weather of a city, now' },
  'POST /tools/:id/enabled': { enabled: false },
  'PUT /tool-policies': { name: 'careful', mode: 'automatic', max_steps: 3 },
  'POST /operators': { username: 'ada', password: 'a password of many words', confirm: 'a password of many words' },
  'PUT /operators/:id/password': {
    password: 'another one of many words',
    current_password: 'a password of many words',
  },
  'POST /overrides': { kind: 'block', target: 'model:gpt-4o-mini', reason: 'it is too dear' },
  'POST /prices/corrections': {
    ...{ provider: 'openai', model: 'gpt-4o-mini', from: '2026-10-01', to: '2026-11-01T12:30:00Z' },
    ...{ input_cost_per_million: 0.12, output_cost_per_million: 0.6, reason: 'the contract of October' },
  },
  'POST /instances/:id/retire': { reason: 'its disk is lost' },
  'POST /auth/setup': { username: 'ada', password: 'a password of many words', confirm: 'a password of many words' },
  'POST /v1/chat/completions': {
    model: 'gpt-4o-mini',
    messages: [{ role: 'user', content: 'What is the capital of France?' }],
  },
  'POST /v1/feedback': { request_id: `req_${ID}`, score: 1, comment: 'right' },
  'POST /auth/login': { username: 'ada', password: 'a password of many words' },
}
