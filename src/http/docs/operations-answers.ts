// Response schemas of the operations surface. Open: a later version may add fields. The document names each by its
// title.
import { type TSchema, t } from '../../lib/schema/schema.ts'

const words = (description: string): TSchema => t.Record(t.String(), t.String(), { description })

export const Service = t.Object(
  {
    name: t.String({ description: 'what the build calls itself' }),
    endpoints: t.Array(t.String(), { description: 'the public routes, each as method and path' }),
  },
  { title: 'Service' },
)

export const Liveness = t.Object(
  {
    status: t.Literal('ok', { description: 'the process answers; nothing else was looked at' }),
    components: words('optional parts and what is configured of each: `database: embedded`, `redis: none`'),
  },
  { title: 'Liveness' },
)

export const ReadinessAnswer = t.Object(
  {
    status: t.Union([t.Literal('ok'), t.Literal('degraded'), t.Literal('unavailable')], {
      description: 'the worst of its checks',
    }),
    checks: words('what was looked at: `ok`, `degraded: <detail>` or a count such as `2 configured`'),
  },
  { title: 'Readiness' },
)

export const VersionAnswer = t.Object(
  {
    name: t.String({ description: 'what the build calls itself' }),
    version: t.String({ description: 'of the release' }),
    commit: t.Union([t.String(), t.Null()], { description: 'that it was built from, when that is known' }),
    environment: t.String({ description: 'the name of the installation' }),
    runtime: t.String({ description: 'what it runs on, with its version' }),
    uptime_seconds: t.Integer({ minimum: 0, description: 'since this process started' }),
    goroutines: t.Integer({ minimum: 0, description: 'units of work: requests under way, background tasks, threads' }),
  },
  { title: 'Version' },
)

export const EventSchemas = t.Object(
  {
    schemas: t.Array(
      t.Object({
        type: t.String({ description: 'type of the event' }),
        topic: t.String({ description: 'where it is written' }),
        since: t.Integer({ minimum: 1, description: 'event version in which it appeared' }),
        description: t.String({ description: 'what it says' }),
        href: t.String({ description: 'where its JSON Schema stands' }),
      }),
      { description: 'one for each type of event' },
    ),
    envelope: t.String({ description: 'where the schema of the envelope stands' }),
    decision: t.String({ description: 'where the schema of a decision stands' }),
    topics: words('what each topic is for'),
  },
  { title: 'EventSchemas' },
)

/** The response schemas that are components of the document, by title. */
export const OPERATIONS_ANSWERS: Readonly<Record<string, TSchema>> = Object.fromEntries(
  [Service, Liveness, ReadinessAnswer, VersionAnswer, EventSchemas].map((schema) => [schema.title!, schema]),
)
