// The face of the package: what other parts may use (README.md).
export { type Answer, type AnswerSink, headLines, type LiveBody, responseOf } from './answer.ts'
export type { HeaderReader, Inbound } from './inbound.ts'
export { MalformedRequest } from './request-head.ts'
export { type HttpServer, type Peers, type ServerHandlers, serveHttp } from './server.ts'
