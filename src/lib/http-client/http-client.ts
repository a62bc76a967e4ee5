// The face of the package: what other parts may use (README.md).
export {
  type ArrivalListener,
  type ByteReader,
  type Dial,
  DialFailure,
  type DialRequest,
  type DialResponse,
} from './dial.ts'
export { createDialer } from './dialer.ts'
export { urlRefusal } from './egress.ts'
export { readerOf } from './stream-text.ts'
