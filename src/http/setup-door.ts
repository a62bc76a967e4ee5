// Who may make the first operator: a client on this machine, or one with the token that the start prints.
import { timingSafeEqual } from 'node:crypto'
import { hmacHex, sha256 } from '../lib/crypto/digest.ts'
import { GatewayError } from '../wire/errors.ts'
import type { Client } from './clients.ts'
import { type AllowedHosts, isAtHome } from './host-check.ts'

export const SETUP_PATH = '/admin/v1/auth/setup'
const HEADER = 'x-gateway-setup-token'
const PARAMETER = 'token'

export interface SetupDoor {
  /** `GATEWAY_SETUP=off`: no first operator is made. */
  readonly isOff: boolean
  readonly token: string
  readonly hosts: AllowedHosts
}

/**
 * The token of the first set-up. It follows from a key of the installation, so every instance and every start knows the
 * same one; set-up itself ends it, since that happens once. No other text under this key is equal to this one: the
 * others are JSON.
 */
export const setupTokenOf = (key: Uint8Array): string => hmacHex(key, 'token of the first set-up')

export const setupLink = (base: string, { token }: Pick<SetupDoor, 'token'>): string =>
  `${base.replace(/\/+$/, '')}${SETUP_PATH}?${PARAMETER}=${token}`

/** Whether the client needs the token. */
export const needsToken = (client: Client, { hosts }: SetupDoor): boolean => !isAtHome(client, hosts)

const isToken = (sent: string, token: string): boolean => timingSafeEqual(sha256(sent), sha256(token))

/** Throws 403 for a set-up from elsewhere without the token. */
export const requireSetupToken = (request: Request, client: Client, door: SetupDoor): void => {
  if (!needsToken(client, door)) return
  const ofQuery = new URL(request.url).searchParams.getAll(PARAMETER)
  const sent = request.headers.get(HEADER) ?? (ofQuery.length === 1 ? ofQuery[0]! : null)
  if (sent !== null && isToken(sent, door.token)) return
  const problem =
    sent === null ? 'needs the token that the start prints' : 'needs another token: see what the start prints'
  throw new GatewayError(
    'permission_error',
    `the first set-up from another machine, or under another name, ${problem} (X-Gateway-Setup-Token, or ?token=)`,
    { param: 'X-Gateway-Setup-Token' },
  )
}
