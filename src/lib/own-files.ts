// Where our own files lie: in the project, or in the bundle of it that `infra/bundle.ts` makes, whose entries and data lie as they do in the project.
import { extname, join } from 'node:path'
import { pathToFileURL } from 'node:url'

const ROOT = join(import.meta.dir, '../..')
const ENDING = extname(import.meta.path)

/** The path of a file that is not code. `path`: from the project's root. */
export const ownFile = (path: string): string => join(ROOT, path)

/** The path of a module that is started or imported by name: a thread, a child process. `path`: from the project's root, without its ending. Each has to be an entry of the bundle. */
export const ownModule = (path: string): string => join(ROOT, `${path}${ENDING}`)

/** The same as a URL, for threads and dynamic imports. */
export const ownModuleUrl = (path: string): string => pathToFileURL(ownModule(path)).href
