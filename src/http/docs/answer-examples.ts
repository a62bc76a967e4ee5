// An example of each response: recorded from a running gateway (`bun tests/recorders/record-answers.ts`), with fixed
// ids and times. Tests compare them with the schemas.
import type { AdminRoute } from '../admin/route.ts'
import { templateOf } from './admin-parameters.ts'
import recorded from './recorded-answers.json' with { type: 'json' }

const RECORDED: Readonly<Record<string, unknown>> = recorded

/** The recorded response to a method and a path of the document; undefined where there is none. */
export const recordedAnswer = (method: string, path: string): unknown => RECORDED[`${method} ${path}`]

/** The example of a route's response; of a list, its page. */
export const answerExample = ({ method, path }: Pick<AdminRoute, 'method' | 'path'>): unknown =>
  recordedAnswer(method, `/admin/v1${templateOf(path)}`)
