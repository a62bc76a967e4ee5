// What tests, and the processes that they start, get of their caller's environment: nothing that a gateway reads.
import { KINDS } from '../src/providers/kinds.ts'

type Environment = Readonly<Record<string, string | undefined>>

const PREFIXES = /^(GATEWAY_|OTEL_|GATELOG_(?!TEST_))/
const PROVIDERS: ReadonlySet<unknown> = new Set(
  [...KINDS.values()].flatMap(({ usualEnv, usualBaseUrlEnv }) => [usualEnv, usualBaseUrlEnv]),
)

/**
 * Whether a gateway reads a variable of this name: settings, first keys, credentials of providers, failpoints,
 * telemetry.
 */
export const isGatewayVariable = (name: string): boolean => PREFIXES.test(name) || PROVIDERS.has(name)

/** The environment without what a gateway reads. */
export const withoutGatewayVariables = (environment: Environment = process.env): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => !isGatewayVariable(name)))

/** What a gateway that a test starts gets of this process: where programs, the home and temporary files are. */
export const placesOfPrograms = () => {
  const { PATH, HOME, TMPDIR } = process.env
  return { PATH, HOME, TMPDIR }
}
