// The face of the package: what other parts may use (README.md).
export { type KafkaSettings, kafkaAccess } from './access.ts'
export { kafkaResponds } from './cluster.ts'
export { kafkaLog } from './log.ts'
export { aclCommands } from './topic-rules.ts'
export { checkTopics, ensureTopics, type TopicRow, type TopicsReport } from './topics.ts'
