// `GET /schemas/`: the JSON Schema of every event of the topics, public. `dataschema` of an envelope refers to it.
import { Elysia } from 'elysia'
import { EVENT_CONTRACTS } from '../../upkeep/contracts/event-contracts.ts'
import { schemaDocuments } from '../../upkeep/contracts/message-schemas.ts'
import { TOPIC_CONTRACTS } from '../../upkeep/contracts/topic-contracts.ts'
import { GatewayError } from '../../wire/errors.ts'
import { identityHeaders } from '../envelope.ts'
import { contextOf } from '../request-context.ts'

/** A schema only ever gains optional fields: a cached copy stays valid. */
const CACHE = 'public, max-age=86400, stale-while-revalidate=604800'

const indexOf = (): string =>
  JSON.stringify({
    schemas: EVENT_CONTRACTS.map(({ type, topic, since, description }) => ({
      type,
      topic: `gateway.${topic}.v1`,
      since,
      description,
      href: `/schemas/${type}.json`,
    })),
    envelope: '/schemas/envelope.json',
    decision: '/schemas/decision.json',
    topics: Object.fromEntries(
      Object.entries(TOPIC_CONTRACTS).map(([topic, { summary }]) => [`gateway.${topic}.v1`, summary]),
    ),
  })

/** Mounted where `server.docs` is on; built on first use. */
export const schemaRoutes = () => {
  let made: { readonly index: string; readonly documents: ReadonlyMap<string, string> } | null = null
  const documents = () => {
    made ??= {
      index: indexOf(),
      documents: new Map([...schemaDocuments()].map(([name, schema]) => [name, JSON.stringify(schema)])),
    }
    return made
  }
  const answer = (request: Request, text: string, type: string): Response =>
    new Response(text, {
      headers: { 'content-type': type, 'cache-control': CACHE, ...identityHeaders(contextOf(request)) },
    })
  const index = ({ request }: { request: Request }) => answer(request, documents().index, 'application/json')
  return new Elysia({ name: 'schemas' })
    .get('/schemas', index)
    .get('/schemas/', index)
    .get('/schemas/:name', ({ request, params }) => {
      const text = documents().documents.get(params.name)
      if (text === undefined) {
        throw new GatewayError('not_found', `there is no schema ${params.name}: GET /schemas/ lists them`)
      }
      return answer(request, text, 'application/schema+json')
    })
}
