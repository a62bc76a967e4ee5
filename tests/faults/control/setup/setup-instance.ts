// An instance of the set-up race. It sets up as the route does, without the hash, or it listens and gets the request by
// HTTP.
// As a program it is one of three processes. Messages on its channel say which log to open, when to set up, and when to
// report its final state. Several rounds run at once, each on a separate log.
import { decideOperator } from '../../../../src/domain/access/operator.ts'
import { Rejection } from '../../../../src/domain/kernel/rejection.ts'
import { newId } from '../../../../src/lib/crypto/ids.ts'
import type { DataKeyStore } from '../../../../src/state/data-keys/store.ts'
import { createSessions } from '../../../../src/upkeep/console/sessions.ts'
import { openRaceLog, type RaceLog } from '../../../state/commit/race-writer.ts'
import { type Instance, nowMs, openInstance, quiet } from '../../../state/support.ts'
import { openDoor, openRaceKeys } from './setup-door.ts'

export type SetUpOrder =
  | {
      readonly round: number
      readonly order: 'open'
      readonly name: string
      readonly log: RaceLog
      readonly door?: true
    }
  | { readonly round: number; readonly order: 'set_up'; readonly username: string }
  /** Once it has folded the log up to there. */
  | { readonly round: number; readonly order: 'end'; readonly at: number }

export type SetUpWord =
  | { readonly round: number; readonly word: 'opened'; readonly url: string | null }
  | { readonly round: number; readonly word: 'tried'; readonly won: boolean }
  | { readonly round: number; readonly word: 'ended'; readonly standing: Standing }
  | { readonly round: number; readonly word: 'failed'; readonly why: string }

/** What an instance has in the end. */
export interface Standing {
  readonly tip: string
  readonly digest: string
  /** Operators, sessions and latches. */
  readonly rows: string
  /** Appends that another instance came before. */
  readonly losses: number
}

/** False: set-up was closed. */
export const setUp = async ({ live, queue }: Instance, username: string): Promise<boolean> => {
  const id = newId('op')
  const secrets = { name_digests: [username] as const, key_id: newId('dek'), sealed: 'sealed' }
  const sessions = createSessions({ live, commit: queue.commit, newId, nowMs, diagnostics: quiet })
  try {
    await sessions.open(id, null, null, (state) => decideOperator(state, { do: 'set_up', id, ...secrets }))
    return true
  } catch (error) {
    if (error instanceof Rejection && error.reason === 'forbidden') return false
    throw error
  } finally {
    sessions.stop()
  }
}

export const standingOf = ({ live, queue }: Instance): Standing => {
  const sizes = (['operators', 'sessions', 'setup'] as const).map((table) => live.control.table(table).size)
  return { tip: live.tip, digest: live.status().digest, rows: sizes.join('/'), losses: queue.status().losses }
}

const serve = (): void => {
  const rounds = new Map<number, Instance>()
  let dataKeys: Promise<DataKeyStore> | null = null
  const obey = async (order: SetUpOrder): Promise<SetUpWord> => {
    const { round } = order
    if (order.order === 'open') {
      const log = openRaceLog(order.log)
      const instance = await openInstance(order.name, log)
      await instance.live.ready()
      if (order.door) dataKeys ??= openRaceKeys(order.log, order.name)
      const door = dataKeys && openDoor(instance, await dataKeys)
      const close = async () => {
        await door?.close()
        await instance.close()
        await log.close()
      }
      rounds.set(round, { ...instance, close })
      return { round, word: 'opened', url: door?.url ?? null }
    }
    const instance = rounds.get(round)!
    if (order.order === 'set_up') return { round, word: 'tried', won: await setUp(instance, order.username) }
    await instance.live.condition.until(() => instance.live.next >= order.at, 10_000)
    const standing = standingOf(instance)
    rounds.delete(round)
    await instance.close()
    return { round, word: 'ended', standing }
  }
  process.on('message', (order: SetUpOrder) => {
    const failed = (error: unknown): SetUpWord => ({ round: order.round, word: 'failed', why: String(error) })
    void obey(order)
      .catch(failed)
      .then((word) => process.send!(word))
  })
  process.on('disconnect', () => process.exit(0))
}

if (import.meta.main) serve()
