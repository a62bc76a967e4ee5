// The permissions on `/admin/v1`, written by hand (docs/behaviour.md: "Scopes", "Tenants"). Nothing here is made from
// the code: the code is compared to it. A route that is missing here, or stands here with other scopes, fails the
// matrix.
import type { Method } from '../../../../src/http/admin/route.ts'

export interface Access {
  readonly method: Method
  readonly path: string
  /** One of these is enough; `*` always is. */
  readonly scopes: readonly string[]
  /** `tenant`: another tenant's does not exist for a key without `*`. `shared`: it follows the scope alone. */
  readonly belongs: 'tenant' | 'shared'
  /** Of what succeeds. */
  readonly status: 200 | 201
}

const READ = 'usage:read'
/** Section: scope of its writes (its reads take `usage:read` too), the owner of its rows, its routes. */
const SECTIONS: readonly (readonly [own: string, belongs: Access['belongs'], routes: string])[] = [
  [
    'tenants:admin',
    'shared',
    'GET /tenants, POST /tenants 201, GET /tenants/:id, PUT /tenants/:id, DELETE /tenants/:id',
  ],
  ['tenants:admin', 'tenant', 'DELETE /tenants/:id/content'],
  [
    'tenants:admin',
    'tenant',
    'GET /budgets, GET /budgets/:id, PUT /budgets, DELETE /budgets/:id, POST /budgets/:id/verify',
  ],
  [
    'keys:admin',
    'tenant',
    'GET /keys, GET /keys/:id, POST /keys 201, PATCH /keys/:id, POST /keys/:id/rotate 201, DELETE /keys/:id',
  ],
  [
    'policies:admin',
    'tenant',
    `GET /policies, GET /policies/:id, POST /policies 201, PUT /policies, DELETE /policies/:id,
     GET /endpoints, GET /endpoints/:id, PUT /endpoints,
     GET /cache/policies, GET /cache/policies/:id, PUT /cache/policies, DELETE /cache/policies/:id`,
  ],
  ['policies:admin', 'shared', 'POST /policies/reload'],
  ['*', 'tenant', 'DELETE /endpoints/:id'],
  [
    'providers:admin',
    'shared',
    `GET /providers, POST /providers 201, GET /providers/:id, PUT /providers/:id, PATCH /providers/:id, DELETE /providers/:id,
     PUT /providers/:id/credential, GET /providers/:id/credential, DELETE /providers/:id/credential, POST /providers/:id/test,
     GET /providers/:id/tests, POST /providers/:id/sync-models, POST /providers/:id/detect-capabilities, POST /providers/:id/kill,
     POST /providers/:id/probe, GET /providers/health, GET /models, GET /models/:id, POST /models 201, PUT /models/:id,
     PATCH /models/:id, DELETE /models/:id, GET /prices/corrections, POST /prices/corrections 201`,
  ],
  [
    'providers:admin',
    'tenant',
    `GET /overrides, POST /overrides 201, GET /guardrails,
     GET /tools, GET /tools/:id, POST /tools 201, PUT /tools/:id, POST /tools/:id/enabled, DELETE /tools/:id,
     GET /tool-policies, GET /tool-policies/:id, PUT /tool-policies, DELETE /tool-policies/:id`,
  ],
  [
    READ,
    'tenant',
    'GET /requests, GET /requests/:id, GET /requests/:id/explain, GET /requests/stream, GET /audit, GET /feedback',
  ],
  [READ, 'tenant', 'GET /overview, GET /usage/summary, GET /usage/series, GET /errors'],
  [READ, 'shared', 'GET /scores, GET /system'],
  // They show shared data, personal secrets included: they need all scopes.
  ['*', 'shared', 'GET /log, GET /log/:id, POST /log/:id/revert'],
  ['*', 'shared', 'GET /instances, POST /instances/:id/retire'],
  [
    '*',
    'shared',
    'GET /operators, POST /operators 201, GET /operators/:id, DELETE /operators/:id, PUT /operators/:id/password',
  ],
]

const rowOf = (own: string, belongs: Access['belongs'], text: string): Access => {
  const [method, path, status] = text.trim().split(' ') as [Method, string, string?]
  const scopes = method === 'GET' && own !== '*' ? [...new Set([READ, own])] : [own]
  return { method, path, scopes, belongs, status: status === undefined ? 200 : 201 }
}

export const ACCESS: readonly Access[] = SECTIONS.flatMap(([own, belongs, routes]) =>
  routes.split(',').map((text) => rowOf(own, belongs, text)),
)

export const nameOf = ({ method, path }: { readonly method: string; readonly path: string }): string =>
  `${method} ${path}`

/** Writes of what holds for every tenant: a key of another tenant than `default` makes none of them. */
export const FOR_ALL: readonly string[] = `POST /policies/reload, POST /providers, PUT /providers/:id,
  PATCH /providers/:id, DELETE /providers/:id, PUT /providers/:id/credential, DELETE /providers/:id/credential,
  POST /providers/:id/test, POST /providers/:id/sync-models, POST /providers/:id/detect-capabilities,
  POST /providers/:id/kill, POST /providers/:id/probe, POST /models, PUT /models/:id, PATCH /models/:id,
  DELETE /models/:id, POST /prices/corrections`
  .split(',')
  .map((name) => name.trim())
