// The parts of `docs/topics.md` that no schema has: how to read, what may change, which decisions count.
import { DECISION_LIMITS } from '../../domain/kernel/decision.ts'

/** How a consumer reads right. */
export const READING = `## Reading right

1. **At least once.** An append whose answer was lost is sent again, so a record may stand in a partition twice, and after a crash a batch may. Each topic says below what repeats are dropped by. Nothing is ever changed or taken back in place.
2. **Order** holds within a partition, and all records of one key stand in one partition. Between partitions there is none: what you compute must not depend on it. The partition is the first four bytes of the key's SHA-256, as a big-endian number, modulo the number of partitions; Gatelog chooses it itself, so do not count on your client library's partitioner to find it.
3. **Offsets.** Keep yours in the same transaction as your results, and drop records below what you have: then a crash of your consumer neither loses nor doubles anything. Offsets grow by one without holes, except where a compacted topic or a transaction marker leaves one.
4. **Time.** \`time\` and \`at_ms\` are the writer's clock; the timestamp of the record is the broker's (LogAppendTime). Outcomes arrive after the request ended, and later when the brokers were away: a day is complete only some time after it ended.
5. **Retention.** What is older than the topic keeps is gone. A consumer whose offset is below the first one of the partition has lost records and should say so. On the \`embedded\` log there are no topics to connect to; use the admin API.
6. **Money** is in whole nano-USD (\`cost_nano_usd\`; 1 USD is 1,000,000,000): add it up as integers. An absent cost is not zero: the price was not known (\`cost_basis\` \`unpriced\`).
7. **Absent members** of the records of requests say nothing: no value, \`false\`, an empty list, a zero that means none. What that is stands with each member. Ids of decisions and revisions of rows are their first 16 digits there.
8. **Compression** of batches of eight records or more is LZ4, where the settings of Gatelog do not say otherwise (\`log.kafka.compression\`), and whatever a broker makes of it that is set to another (\`compression.type\`). Kafka’s own clients read it; kafka-python needs the package \`lz4\`, and kafkajs a reader such as [lz4.ts](../examples/consumers/typescript/lz4.ts).

### The outcome of a request

\`request.admitted\`, then perhaps \`request.attempted\` and \`request.extended\`, then \`request.settled\`, which stands for itself: tenant, key, models, provider, policy, tokens, cost and times. To count requests, tokens and cost, read \`request.settled\` alone. The inputs of the plan stand in the admission, and in the settlement of a request that was planned and not admitted.

- One request (\`data.id\`) has one outcome: its **first** settlement in the partition. A second one (a crash between, and another process that closed it as \`orphaned\`) does not count. So: keep the first by \`data.id\`, ignore later ones.
- \`request_id\` is the client's own label and repeats: never join or drop by it.
- \`cost_nano_usd\` of the outcome holds all attempts, failed ones that were billed included. \`attempts[].cost_nano_usd\` splits it where there was more than one to bill.
- \`purpose\` marks what the gateway called for by itself (tests, detection of capabilities); its cost is real and belongs to no tenant.
- An admission without a settlement is under way, or its process died and has not come back: it is closed at the latest when another process adopts its spool.`

/** What may change in a topic, and what never will. */
export const COMPATIBILITY = `## What may change

- A field may be added, always optional. Ignore what you do not know. No field is ever renamed, removed, given another type or another meaning; the words of a choice (such as \`outcome\`) may become more.
- A new event type may appear in any topic. Skip types that you do not know.
- Anything else is a new type, or a new topic (\`.v2\`) beside the old one, announced in the changelog and written side by side for at least one version.
- A schema's \`since\` is the event version from which the type may be written: a gateway writes it only once all live instances know it.
- Schemas are JSON Schema of the draft 2020-12, as their \`$schema\` states: in [asyncapi.json](asyncapi.json), and at \`/schemas/\` of every gateway.
- A recorded line of every type ever shipped is part of the tests: what you see below will be readable for ever.`

/** Which records of the control topic count. */
export const CONTROL_RULE = `### Which decisions count

Most teams want \`gateway.audit.v1\` instead: it holds exactly the decisions that counted, as changes of rows, with secrets masked. Who does read this topic must apply the counting rule, in the order of the offsets, from the first one:

1. Start with the tip \`${'0'.repeat(8)}...\` (64 zeros).
2. The id of a record is the SHA-256 of its value, byte for byte as it stands in the log, in hexadecimal. Never serialise it again first.
3. A record that is larger than ${DECISION_LIMITS.bytes.toLocaleString('en-US')} bytes, or does not end in \`,"mac":"<64 hexadecimal digits>"}\`, does not count. (\`{"turn":...}\` is such a one: a courtesy between instances.)
4. \`mac\` has to be the HMAC-SHA-256 of all bytes before \`,"mac"\`, under the key HKDF-SHA-256(master key, no salt, info \`gatelog/decision-mac\`, 32 bytes). Without the master key this cannot be checked: then nobody but gateways may be able to write to the topic.
5. Those bytes, closed with \`}\`, have to be JSON in valid UTF-8 with \`v\` 1, \`parent\`, \`at\`, \`actor\`, \`cause\` and 1 to ${DECISION_LIMITS.events.toLocaleString('en-US')} \`events\`, at most ${DECISION_LIMITS.depth} levels deep.
6. It counts if and only if \`parent\` is the tip. Then its id is the new tip. Else another decision came first: it changes nothing, and the tip stays.
7. A decision that counts applies all of its events, or none when one of them does not match its schema; the tip has moved all the same.

A \`parent\` that you never saw, neither as a tip nor as a record that lost, means that you skipped records or that the topic lost some: stop, and read again from the start.`
