// What each event means, in a sentence for readers of the topics. A test fails when one is missing.

export const EVENT_DESCRIPTIONS: Readonly<Record<string, string>> = {
  'request.admitted':
    'A request was let in, and its first attempt is about to be made. Written before the provider is called; ' +
    'says what was planned and what is reserved.',
  'request.attempted': 'A further attempt is about to be made, after one that failed before its first byte.',
  'request.extended':
    'A stream costs more than its attempt reserved of a hard budget, and more of it was granted. Written before ' +
    'the stream goes on.',
  'request.settled':
    'The outcome of a request: how it ended, who answered, tokens, cost and times. One for each request, also ' +
    'for those that were refused.',
  'feedback.given':
    'Somebody scored an answer. Of the same request, tenant and metric the latest by `at_ms` (then by `id`) holds.',
  'breaker.opened': 'The circuit breaker of a model opened on one instance: nothing is sent there for a while.',
  'breaker.half_opened': 'The cooldown of a breaker is over: one trial at a time may be made.',
  'breaker.closed': 'A breaker closed: the model is called again as usual.',
  'probe.recorded': 'A provider was asked for its models, to know its health.',
  'frame.taken':
    'A numbered copy of the volatile inputs of plans (health, breakers, speeds, headroom): what an outcome’s ' +
    '`frame` names. Large frames come in parts.',
  'login.failed': 'Somebody failed to log in to the console.',
  'login.locked': 'A name or an address may not try to log in for a while.',
  'usage.closed':
    'A day is over: its totals, kept for ever. Of each day the complete set of parts with the highest `sequence` ' +
    'holds; it takes the place of those before.',
  'account.opened':
    'An account was opened: a budget in one window. Its limits are copied from the decision; the first record of ' +
    'an account counts.',
  'account.limited': 'The limits of an account follow those of its budget. Of each height the first copy counts.',
  'account.stated':
    'An account as it is, hourly: a reader may begin at a complete statement of a tenant instead of at the ' +
    'first record.',
  'account.alerted':
    'A threshold of a budget was reached. Several instances may say so: of each (account, threshold) the first holds.',
  'lease.requested':
    'An instance asks to spend. Whether it is granted follows from the records before it: every reader computes ' +
    'the same.',
  'lease.settled': 'What an instance has spent and given back so far: sums since its start, at the latest every 10 s.',
  'lease.closed': 'All that an instance spent which will spend no more: the rest of its leases is free.',
  'instance.retired':
    'An instance that was silent for a day, or that an operator gave up: what it holds and did not spend is free.',
  'audit.recorded':
    'A decision that counted: who changed what, with the rows before and after, secrets masked. The control ' +
    'topic’s history for those who may not read that topic.',
  'instance.announced': 'An instance says how far it is and what its state is, once a second.',
  'installation-key.wrapped':
    'A key that belongs to the installation for ever (what decisions are signed with, what digests are keyed ' +
    'with), wrapped by the master key.',
  'data-key.wrapped':
    'A data key, wrapped by the master key. Without a value (a tombstone) for its key: it is deleted, and what ' +
    'it sealed can never be read again.',
  'chain.started': 'The first decision of a chain: its id, and how many partitions the topics have.',
  'schema.activated': 'All live instances know every event type up to this version: they may be written from here on.',
  'tenant.created': 'A tenant was made.',
  'tenant.replaced': 'The fields of a tenant were replaced.',
  'tenant.content_erased':
    'What was captured of a tenant’s requests so far was erased: the keys that it is sealed under are deleted.',
  'tenant.deleted': 'A tenant was deleted; what belongs to it fell with it.',
  'api_key.issued': 'An API key was issued. Holds a digest of it, never the key.',
  'api_key.changed': 'The name, scopes, limits or policy of a key changed.',
  'api_key.rotated': 'A key got a new secret; the old one is void from here on.',
  'api_key.revoked': 'A key was revoked.',
  'provider.created': 'A provider was added.',
  'provider.changed': 'Fields of a provider changed.',
  'provider.enabled': 'A provider may be called again.',
  'provider.disabled': 'A provider may not be called any more.',
  'provider.deleted': 'A provider was deleted; its models fell with it.',
  'provider.tested': 'A provider was tested by an operator, with what came of it.',
  'credential.sealed': 'A provider got a credential, sealed under a data key of its own.',
  'credential.removed': 'The credential of a provider was removed, and its data key with it.',
  'model.created': 'A model of a provider was added to the registry.',
  'model.changed': 'Fields of a model changed: prices, limits, capabilities, aliases.',
  'model.enabled': 'A model may be called again.',
  'model.disabled': 'A model may not be called any more.',
  'model.deleted': 'A model was removed from the registry.',
  'policy.created': 'A routing policy was made.',
  'policy.changed': 'Fields of a routing policy changed.',
  'policy.deleted': 'A routing policy was deleted.',
  'endpoint.created': 'An endpoint scope was made.',
  'endpoint.changed': 'Fields of an endpoint scope changed.',
  'endpoint.deleted': 'An endpoint scope was deleted.',
  'override.written': 'A kill switch, block, cap, force, disable or freeze was set or lifted.',
  'budget.created': 'A budget was made.',
  'budget.changed': 'Fields of a budget changed; its spend stays.',
  'budget.deleted': 'A budget was deleted.',
  'cache_rule.created': 'A cache rule was made.',
  'cache_rule.changed': 'Fields of a cache rule changed.',
  'cache_rule.deleted': 'A cache rule was deleted.',
  'tool.registered': 'A tool was registered.',
  'tool.changed': 'Fields of a tool changed.',
  'tool.enabled': 'A tool may be used again.',
  'tool.disabled': 'A tool may not be used any more.',
  'tool.deleted': 'A tool was deleted.',
  'tool_policy.created': 'A tool policy was made.',
  'tool_policy.changed': 'Fields of a tool policy changed.',
  'tool_policy.deleted': 'A tool policy was deleted.',
  'price.corrected':
    'What the tokens of a model at a provider really cost in a range of time. Nothing is booked anew: usage can ' +
    'be read as booked and as corrected.',
  'price.correction_withdrawn': 'A price correction was taken back.',
  'instance.given_up':
    'An operator gave up an instance that is dead and whose disk will not come back: what it holds of budgets is ' +
    'free again, but for what it is known to have spent.',
  'setup.completed': 'The console was set up: it can be done once.',
  'operator.created': 'An operator of the console was added; the name and the password’s hash are sealed.',
  'operator.password_changed': 'An operator has a new password.',
  'operator.deleted': 'An operator was removed.',
  'session.opened': 'An operator logged in.',
  'session.seen': 'A session was used; at most one in a quarter of an hour.',
  'session.closed': 'A session ended: logged out, or ended by another decision.',
  'decision.reverted': 'An earlier decision was taken back by this one.',
  'write.unchanged':
    'A write with an `Idempotency-Key` found everything as it asked for. Nothing changed; the decision lets ' +
    'every instance answer a repeat.',
}
