// Rules for the name and the password of an operator.

import { t } from '../../lib/schema/schema.ts'
import { nameError } from '../../lib/text/storable-text.ts'
import { Rejection } from '../kernel/rejection.ts'

export const PASSWORD_POLICY = {
  description: 'A password has 12 to 256 characters and is not the username.',
  min_length: 12,
  max_length: 256,
  not_username: true,
} as const

const MAX_NAME = 128

/** The shape of the body; `nameOf` and `requirePassword` check the rules. */
export const Username = t.String({ minLength: 1, maxLength: 256 })
export const Password = t.String({ minLength: 1, maxLength: 2_048 })

/** The name as it is stored, without blanks at its ends. Throws when it is no valid name, by the rule of all names. */
export const nameOf = (username: string): string => {
  const name = username.normalize('NFC').trim()
  const rejection = (rule: string) => new Rejection('invalid', `"username" ${rule}`, 'username')
  if (name === '') throw rejection('must not be empty')
  if ([...name].length > MAX_NAME) throw rejection(`must have at most ${MAX_NAME} characters`)
  const rule = nameError(name)
  if (rule !== null) throw rejection(rule)
  return name
}

const folded = (text: string): string => text.normalize('NFKC').trim().toLowerCase()

/**
 * Throws when the password violates the policy, or when its repetition differs. `confirm` undefined: it was not
 * repeated.
 */
export const requirePassword = (password: string, username: string, confirm: string | undefined): void => {
  const { min_length, max_length } = PASSWORD_POLICY
  const rejection = (rule: string) => new Rejection('invalid', `"password" ${rule}`, 'password')
  const { length } = [...password.normalize('NFC')]
  if (length < min_length) throw rejection(`must have at least ${min_length} characters`)
  if (length > max_length) throw rejection(`must have at most ${max_length} characters`)
  if (!password.isWellFormed()) throw rejection('holds half a character')
  if (folded(password) === folded(username)) throw rejection('must not be the username')
  if (confirm !== undefined && confirm !== password)
    throw new Rejection('invalid', '"confirm" is not the same as "password"', 'confirm')
}
