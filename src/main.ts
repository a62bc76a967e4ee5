// The composition root: settings -> port -> log and control state -> outcomes -> analytics -> app. Everything is
// started here and stopped in reverse.

import manifest from '../package.json' with { type: 'json' }
import { type App, type AppDeps, createApp } from './app.ts'
import { type Analytics, openAnalytics } from './composition/analytics.ts'
import { type Announcements, openAnnouncements } from './composition/announcements.ts'
import { type BudgetParts, openBudgetParts } from './composition/budgets.ts'
import { type ConsoleParts, openConsole } from './composition/console.ts'
import { type ControlPlane, openControlPlane } from './composition/control-plane.ts'
import { lockDataDir, roomProblem, withRoom } from './composition/data-access.ts'
import { type HealthParts, openHealthParts } from './composition/health.ts'
import { openLimits, openLoad } from './composition/limits.ts'
import { listen } from './composition/listener.ts'
import { operationsOf, systemRoutesOf } from './composition/operations.ts'
import { type Outcomes, openOutcomes } from './composition/outcomes.ts'
import { openWork } from './composition/provider-work.ts'
import { readRoutes } from './composition/read-routes.ts'
import { checkKeys, seedUntilDone } from './composition/seeding.ts'
import { type Environment, isKafka, kindTableOf, masterKeysFor, prepareDataDir } from './composition/settings.ts'
import { Grace, Stack } from './composition/shutdown-stack.ts'
import { openTracing, type Tracing, telemetryOf } from './composition/telemetry.ts'
import { startWarmUp } from './composition/warm-up/warm-up.ts'
import { allowsPrivate, type Config, settingMs, shutdownGraceMs } from './config/schema.ts'
import type { ProviderRow } from './domain/registry/provider.ts'
import type { Limits } from './inference/limits/port.ts'
import { INFERENCE_DEFAULTS, type InferenceSettings } from './inference/request/deps.ts'
import { hmacHex } from './lib/crypto/digest.ts'
import { newApiKey, newId } from './lib/crypto/ids.ts'
import { waitBriefly } from './lib/event-loop/wait-with-timeout.ts'
import { createDialer } from './lib/http-client/http-client.ts'
import type { Diagnostics } from './lib/process/diagnostics.ts'
import { wallMs } from './lib/time/wall-clock.ts'
import { KINDS } from './providers/kinds.ts'
import type { Budgets } from './state/budgets/budgets.ts'
import { providerSecret } from './state/indexes/catalogue.ts'
import { lastUses } from './state/indexes/last-uses.ts'
import type { SeedReport } from './upkeep/bootstrap/step.ts'
import { envIsAllowed, type KindTable } from './upkeep/models/kind-table.ts'
import { type ModelCatalogue, modelCatalogue } from './upkeep/models/model-listing.ts'
import type { ProviderWork } from './upkeep/models/provider-work.ts'
import { type EgressWatch, watchEgress } from './upkeep/watch/egress-watch.ts'
import type { LoadWatch } from './upkeep/watch/load-watch.ts'

export interface GatewayOptions {
  readonly config: Config
  readonly env: Environment
  readonly diagnostics: Diagnostics
  /**
   * The first process of a data folder: runs Postgres and the worker, seeds, writes snapshots, adopts abandoned spools.
   */
  readonly primary: boolean
  /** Aborted when a stop is requested: the start waits for nothing more that it can do without. */
  readonly signal: AbortSignal
  /** Called for an error after the start that should have prevented it. */
  readonly onRefused: (error: unknown) => void
}

export interface Gateway {
  /** The URL for clients on this machine. */
  readonly url: string
  /** What the seeder did, once it could; null for a sibling. */
  readonly seeded: Promise<SeedReport> | null
  /** The name of a model that can be called now, or null. */
  someModel(): string | null
  /** Where the first operator can be made, with the token that this takes from elsewhere; null: it is made, or off. */
  setupLink(): string | null
  /**
   * Takes requests for `server.shutdown_grace` with `/ready` at 503, lets no more in, waits for what is in flight, then
   * ends everything in the reverse order.
   */
  stop(): Promise<void>
  /** Lets a stop take no more requests from now on; false when it takes none already. */
  skipGrace(): boolean
}

/** What a drain may take beyond its time: the rest is ended, and their outcomes are written. */
const SETTLE_MS = 5_000

export const VERSION: string = manifest.version

/** Starts a gateway. Throws what should prevent the start, with everything ended that was started before. */
export const startGateway = async (options: GatewayOptions): Promise<Gateway> => {
  const { config, env, diagnostics, primary, onRefused } = options
  const started = new Stack(diagnostics)
  try {
    if (primary) checkKeys(config, env)
    const listener = listen(config.server, !primary, diagnostics)
    started.push('listener', () => listener.stop())
    prepareDataDir(config)
    if (primary) {
      const lock = lockDataDir(config.data.dir)
      started.push('lock', () => lock.release())
      const lacking = roomProblem(config)
      if (lacking !== null) diagnostics.warn('disk_room', { lacking })
    }
    const masterKeys = () => masterKeysFor(config)
    masterKeys() // made by the first start, and refused when it cannot be used
    const warmUp = startWarmUp({ config, diagnostics, primary })
    started.push('warm-up', () => warmUp.stop())
    options.signal.addEventListener('abort', () => void warmUp.stop())
    const analytics = openAnalytics({ config, env, diagnostics, primary, onRefused })
    started.push('analytics', () => analytics.close())
    const outcomes = await openOutcomes(config, diagnostics)
    started.push('spool', () => outcomes.spool.close())
    const { instance } = outcomes.spool
    const control = await openControlPlane({
      config,
      env,
      masterKeys,
      instance,
      diagnostics,
      snapshots: primary,
      onRefused,
    })
    started.push('control', () => control.close())
    const budgetParts = openBudgetParts(config, control, outcomes, diagnostics)
    outcomes.start(control.live, { adopt: primary, recover: budgetParts.recover })
    started.push('sender', () => outcomes.stop())
    started.push('budgets', () => budgetParts.close())
    const { budgets, verify: verifyBudget } = budgetParts
    const parts = openParts({ ...options, analytics, outcomes, control, budgets, verifyBudget })
    started.push('parts', () => parts.close())
    const app = createApp({ ...appDeps(parts), isWarm: warmUp.isDone })
    const drainMs = settingMs(config.server.drain) ?? 0
    const grace = new Grace(shutdownGraceMs(config))
    started.push('requests', () => app.drain(drainMs), drainMs + SETTLE_MS)
    started.push('provider work', () => parts.providerWork.close())
    const seeded = primary ? seedUntilDone(parts) : null
    // While the log is not reachable nothing can be seeded: the start does not wait for it.
    if (seeded !== null && control.live.status().phase === 'live') await waitBriefly(seeded, onRefused)
    else seeded?.catch(onRefused)
    listener.serve(app)
    diagnostics.debug('serving', { spool: outcomes.spool.number })
    analytics.startWorker()
    await warmUp.ended
    // `/ready` was never 200: no load balancer has to notice the stop.
    if (options.signal.aborted) grace.skip()
    started.push('door', () => leave(app, grace), grace.ms + SETTLE_MS) // before anything ends
    return {
      url: listener.url,
      seeded,
      someModel: () => someModel(control),
      setupLink: () => parts.console.setupLink(listener.url),
      stop: () => started.stop(),
      skipGrace: () => grace.skip(),
    }
  } catch (error) {
    await started.stop()
    throw withRoom(config, error)
  }
}

/** Without a grace, requests are refused from the moment that `/ready` is 503. */
const leave = async (app: App, grace: Grace): Promise<void> => {
  if (grace.ms > 0) {
    app.leave()
    await grace.pass()
  }
  app.prepareToStop()
}

interface Parts extends GatewayOptions {
  readonly analytics: Analytics
  readonly outcomes: Outcomes
  readonly control: ControlPlane
  readonly budgets: Budgets
  readonly verifyBudget: BudgetParts['verify']
  readonly kindTable: KindTable
  readonly modelCatalogue: ModelCatalogue
  readonly dialer: ReturnType<typeof createDialer>
  readonly egress: EgressWatch
  readonly health: HealthParts
  readonly providerWork: ProviderWork
  readonly limits: Limits
  readonly console: ConsoleParts
  readonly tracing: Tracing | null
  readonly load: LoadWatch
  readonly announcements: Announcements
  readonly instances: Announcements['instances']
  close(): Promise<void>
}

/** What is neither state nor outcome: the dialer, the kinds, announcements, the check of Redis. */
const openParts = (
  opened: GatewayOptions & Pick<Parts, 'analytics' | 'outcomes' | 'control' | 'budgets' | 'verifyBudget'>,
): Parts => {
  const { config, env, diagnostics, control, outcomes, budgets } = opened
  const egress = watchEgress(diagnostics, Date.now)
  const dialer = createDialer({ allowPrivate: allowsPrivate(config), onPrivate: egress.blocked })
  const kindTable = kindTableOf(config)
  const mayName = (name: string) => envIsAllowed(name, kindTable)
  const secrets = { env, envIsAllowed: mayName, diagnostics, dataKeys: control.dataKeys }
  const secretOf = (provider: ProviderRow) => providerSecret(provider, secrets)
  const catalogueOfModels = modelCatalogue({ dial: dialer.dial, kindTable, secretOf, nowMs: wallMs })
  const health = openHealthParts({ ...opened, kindTable, modelCatalogue: catalogueOfModels, dial: dialer.dial })
  const providerWork = openWork({
    control,
    outcomes,
    kindTable,
    modelCatalogue: catalogueOfModels,
    dial: dialer.dial,
    budgets,
  })
  const limits = openLimits(config)
  const tracing = openTracing({ config, env, diagnostics, version: VERSION })
  const load = openLoad(config)
  const console = openConsole({ ...opened, announce: () => announcements.instances()?.scheduleAnnouncement() })
  const { instance } = outcomes.spool
  const shared = { book: health.book, failures: console.failures }
  const announcements = openAnnouncements({ control, instance, build: VERSION, ...shared, diagnostics })
  return {
    ...opened,
    dialer,
    egress,
    health,
    providerWork,
    kindTable,
    modelCatalogue: catalogueOfModels,
    limits,
    console,
    tracing,
    load,
    announcements,
    instances: () => announcements.instances(),
    async close() {
      load.close()
      console.close()
      await announcements.close()
      await health.close()
      dialer.close()
      await tracing?.close()
      limits.close()
    },
  }
}

const appDeps = (parts: Parts): AppDeps => {
  const { config, control, outcomes, analytics, dialer, kindTable } = parts
  const { live, catalogue } = control
  const userDigest = (tenantId: string, user: string): string =>
    hmacHex(control.installation.endUser, `${tenantId}\0${user}`).slice(0, 32)
  const operations = operationsOf({ ...parts, version: VERSION })
  return {
    ...parts.console.deps,
    live,
    keys: control.keys,
    catalogue,
    steering: control.steering,
    history: control.history,
    frames: parts.health.book,
    health: parts.health.book,
    recentRequests: parts.health.recentRequests,
    feedback: parts.health.feedback,
    requestLookup: parts.health.requestLookup,
    kinds: KINDS,
    limits: parts.limits,
    budgets: parts.budgets,
    verifyBudget: parts.verifyBudget,
    spool: outcomes.spool,
    dial: dialer.dial,
    random: Math.random,
    userDigest,
    inference: inferenceSettings(config),
    commit: control.commits.commit,
    dataKeys: control.dataKeys,
    content: control.content,
    causeKey: control.installation.idempotency,
    appliedBy: (revision) => parts.announcements.appliedBy(revision),
    ...operations,
    kindTable,
    allowPrivate: allowsPrivate(config),
    modelCatalogue: parts.modelCatalogue,
    providerWork: parts.providerWork,
    adapterReady: ({ id }) => catalogue.adapterReady(id),
    hasVariable: (name) => envIsAllowed(name, kindTable) && Boolean(parts.env[name]),
    healthOf: parts.health.healthOf,
    newId,
    newApiKey,
    nowMs: wallMs,
    lastUses: lastUses(),
    clearBreakers: () => parts.announcements.clearBreakers(),
    furtherRoutes: [
      ...parts.health.routes,
      ...readRoutes({ ...parts, userDigest }),
      ...systemRoutesOf({ ...parts, version: VERSION }, operations),
    ],
    adminEnabled: config.admin.enabled,
    corsOrigins: config.server.cors_origins,
    prometheusEnabled: config.telemetry.prometheus_enabled,
    docsEnabled: config.server.docs,
    ...telemetryOf(parts),
    gate: parts.load.gate,
    backgroundUnits: () => analytics.children() + (isKafka(config) ? 2 : 1),
  }
}

const inferenceSettings = ({ auth, tools, server }: Config): InferenceSettings => ({
  ...INFERENCE_DEFAULTS,
  authHeader: auth.header_name.toLowerCase(),
  minKeyLength: auth.min_key_length,
  maxStalenessMs: settingMs(auth.max_staleness),
  gatewayExecution: tools.gateway_execution,
  bodyMs: settingMs(server.body_timeout) ?? INFERENCE_DEFAULTS.bodyMs,
  idleS: Math.ceil((settingMs(server.idle_timeout) ?? 0) / 1_000),
})

const someModel = ({ catalogue }: ControlPlane): string | null =>
  [...catalogue.resolve('sandbox-echo'), ...catalogue.all()].find(({ unroutable }) => unroutable === null)?.name ?? null
