// Providers that cannot be called for want of a credential. Their rows are valid, so only a start can report which
// variable is missing: clients just get the error that no provider is usable.
import type { ControlReader } from '../../../domain/control.ts'
import { withheldSecret } from '../../../domain/registry/secret-binding.ts'
import { envIsAllowed, envProblem } from '../../models/kind-table.ts'
import type { SeedDeps } from '../step.ts'

/**
 * One line for each active provider whose secret is out of use, or whose kind needs one and where neither its variable
 * nor the stored row has one.
 */
export const credentialNotes = (
  control: ControlReader,
  { kindTable, env }: Pick<SeedDeps, 'kindTable' | 'env'>,
): string[] => {
  const notes: string[] = []
  for (const [id, row] of control.table('providers').rows()) {
    const { name, kind, status, api_key_env: variable, credential } = row
    if (status !== 'active') continue
    const put = `PUT /admin/v1/providers/${id}/credential`
    const withheld = withheldSecret(row, (name) => envIsAllowed(name, kindTable) && Boolean(env(name)))
    if (withheld !== null) {
      notes.push(`the provider "${name}": ${withheld} (${put})`)
      continue
    }
    if (variable !== null && !envIsAllowed(variable, kindTable)) {
      notes.push(`the provider "${name}": ${envProblem(variable, kindTable)!.message}`)
      if (credential === null) continue
    }
    if (credential !== null || kindTable.resolve(kind)?.needsCredential !== true) continue
    if (variable !== null && env(variable)) continue // an empty variable is one that is not set
    const mend = variable === null ? 'name a variable in its api_key_env' : `set ${variable} before the start`
    notes.push(`the provider "${name}" has no credential, so none of its models can be used: ${mend}, or ${put}`)
  }
  return notes
}
