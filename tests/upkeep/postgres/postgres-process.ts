// A process that runs the embedded Postgres of a folder, for tests that kill it. Prints its URL when ready. Argument:
// data folder.
import { startEmbeddedPostgres } from '../../../src/upkeep/postgres/embedded-postgres.ts'
import { silent } from '../../services/postgres.ts'

const server = startEmbeddedPostgres({ dataDir: process.argv[2] ?? '', diagnostics: silent })
await server.whenReady
console.log(server.url)
process.stdin.resume() // stays until it is killed
