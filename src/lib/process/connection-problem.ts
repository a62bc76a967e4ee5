// Failures of a connection in words: what is wrong at the other end, and what to do. Names no address and no secret.
import { codeOf } from './error-code.ts'

const NAME = 'its name cannot be resolved: check the host and the name server'
const CLOSED = 'it closes the connection'
const SILENT = 'it does not answer in time: check the address, the firewall and whether it is overloaded'
const NO_WAY = 'no route leads to its address'
const UNTRUSTED =
  'its certificate is of no authority that this machine trusts: give the authority by NODE_EXTRA_CA_CERTS'

const BY_CODE: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens at that address: start it, or correct host and port',
  ENOENT: 'its socket does not exist: start it, or correct the folder',
  EACCES: 'this account may not use its socket',
  ENOTFOUND: NAME,
  EAI_AGAIN: NAME,
  EAI_FAIL: NAME,
  ECONNRESET: CLOSED,
  EPIPE: CLOSED,
  ECONNABORTED: CLOSED,
  CONNECTION_CLOSED: CLOSED,
  CONNECTION_ENDED: CLOSED,
  CONNECTION_DESTROYED: CLOSED,
  ETIMEDOUT: SILENT,
  CONNECT_TIMEOUT: SILENT,
  EHOSTUNREACH: NO_WAY,
  ENETUNREACH: NO_WAY,
  EHOSTDOWN: NO_WAY,
  EMFILE: 'this process has too many open files: raise the limit (LimitNOFILE)',
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  CERT_UNTRUSTED: UNTRUSTED,
  CERT_HAS_EXPIRED: 'its certificate has expired: renew it there',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet: check the clocks',
  CERT_REVOKED: 'its certificate is revoked: renew it there',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host name: connect by the name in the certificate',
  EPROTO: 'it does not speak TLS as this client does: check whether that port has TLS',
}

/** One sentence for a failure of a connection, with its code; null for another error. */
export const connectionProblem = (error: unknown): string | null => {
  const code = codeOf(error)
  if (code === null) return null
  const words = BY_CODE[code] ?? (code.startsWith('ERR_SSL_') ? BY_CODE.EPROTO : undefined)
  return words === undefined ? null : `${words} (${code})`
}
