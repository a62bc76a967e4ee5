// Providers that cannot be called for want of a credential. Their rows are valid, so only a start can report which
// variable is missing: clients just get the error that no provider is usable.
import type { ControlReader } from '../../domain/control.ts'
import type { SeedDeps } from './step.ts'

/**
 * One line for each active provider whose kind needs a credential, where neither its variable nor the stored row has
 * one.
 */
export const credentialNotes = (
  control: ControlReader,
  { kindTable, env }: Pick<SeedDeps, 'kindTable' | 'env'>,
): string[] => {
  const notes: string[] = []
  for (const [id, { name, kind, status, api_key_env: variable, credential }] of control.table('providers').rows()) {
    if (status !== 'active' || credential !== null || kindTable.resolve(kind)?.needsCredential !== true) continue
    if (variable !== null && env(variable)) continue // an empty variable is one that is not set
    const mend = variable === null ? 'name a variable in its api_key_env' : `set ${variable} before the start`
    notes.push(
      `the provider "${name}" has no credential, so none of its models can be used: ${mend}, or PUT ` +
        `/admin/v1/providers/${id}/credential`,
    )
  }
  return notes
}
