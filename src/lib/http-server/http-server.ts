// The face of the package: what other parts may use (README.md).
export { type Answer, type AnswerSink, headLines, isText, type LiveBody, responseOf } from './answer.ts'
export { serveWithBun } from './bun-server.ts'
export type { HeaderReader, Inbound } from './inbound.ts'
export { MalformedRequest } from './request-head.ts'
export {
  type HotRoute,
  type HttpServer,
  type Peers,
  type ServerHandlers,
  type ServerOptions,
  serveHttp,
} from './server.ts'
