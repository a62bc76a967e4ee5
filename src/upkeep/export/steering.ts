// Endpoint scopes and overrides as entries of `bootstrap:`.

import type { BootstrapEndpoint, BootstrapOverride } from '../../domain/bootstrap.ts'
import type { ControlReader } from '../../domain/control.ts'
import { isModel } from '../../domain/registry/alias.ts'
import { type EndpointRow, NOTHING_OVERRIDDEN } from '../../domain/steering/endpoint.ts'
import type { OverrideRow } from '../../domain/steering/override-row.ts'
import { ModelTexts } from '../bootstrap/model-names.ts'
import { type KeyNames, nameOfKey } from './keys.ts'
import { type Exported, ownerOf, providerName, withoutDefaults } from './rows.ts'

export const endpointEntry = (state: ControlReader, row: EndpointRow): Exported<BootstrapEndpoint> => {
  const texts = new ModelTexts(state, row.managed_by ?? 'api')
  const { slug, name, description, enabled, aliases, overrides } = row
  const what = `the endpoint scope ${JSON.stringify(slug)}`
  // Refused by other installations, and without effect here.
  if (overrides.forced_model !== null && !isModel(state, overrides.forced_model))
    return {
      entry: null,
      note: `${what} is left out: its forced_model ${JSON.stringify(overrides.forced_model)} is gone`,
    }
  const forced_model = overrides.forced_model === null ? null : texts.of(overrides.forced_model)
  const named = {
    ...overrides,
    forced_model,
    preferred_models: overrides.preferred_models.map((model) => texts.of(model)),
    preferred_providers: overrides.preferred_providers.map((provider) => providerName(state, provider)),
  }
  const fieldsSet = withoutDefaults(named, NOTHING_OVERRIDDEN)
  const entry = {
    slug,
    ...ownerOf(state, row.tenant_id),
    ...(name === slug ? {} : { name }),
    ...(description === null ? {} : { description }),
    ...(aliases.length === 0 ? {} : { aliases }),
    ...(Object.keys(fieldsSet).length === 0 ? {} : { overrides: fieldsSet }),
    ...(enabled ? {} : { enabled }),
  }
  return { entry, ...texts.noteOn(what) }
}

export const overrideEntry = (state: ControlReader, keys: KeyNames, row: OverrideRow): Exported<BootstrapOverride> => {
  const { kind, target, tenant_id, value, reason, expires_at } = row
  const what = `the override ${kind} of ${JSON.stringify(target)}`
  let named = target
  if (target.startsWith('provider:')) {
    const provider = state.table('providers').get(target.slice('provider:'.length))
    if (provider === undefined) return { entry: null, note: `${what} is left out: there is no such provider any more` }
    named = `provider:${provider.name}`
  } else if (target.startsWith('key:')) {
    const name = nameOfKey(state, keys, tenant_id, target.slice('key:'.length))
    if (name === null) return { entry: null, note: `${what} is left out: there is no such key any more` }
    named = `key:${name}`
  }
  if (value?.model !== undefined && !isModel(state, value.model))
    return { entry: null, note: `${what} is left out: there is no model ${JSON.stringify(value.model)} any more` }
  const texts = new ModelTexts(state, 'api')
  const entryValue = value === null ? null : value.model === undefined ? value : { model: texts.of(value.model) }
  return {
    entry: {
      kind: kind as BootstrapOverride['kind'],
      target: named,
      ...ownerOf(state, tenant_id),
      ...(entryValue === null ? {} : { value: entryValue as NonNullable<BootstrapOverride['value']> }),
      ...(reason === null ? {} : { reason }),
      ...(expires_at === null ? {} : { expires_at }),
    },
    ...texts.noteOn(what),
  }
}
