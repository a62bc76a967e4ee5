// Paths of the program's own files, by their path from the project's root, independent of the calling module.
import { extname, join } from 'node:path'
import { pathToFileURL } from 'node:url'

const ROOT = join(import.meta.dir, '../..')
const ENDING = extname(import.meta.path)

/** The path of a file that is not code. `path`: from the project's root. */
export const ownFile = (path: string): string => join(ROOT, path)

/**
 * The path of a module that is started or imported by name (a thread, a child process). `path`: from the project's
 * root, without its extension.
 */
export const ownModule = (path: string): string => join(ROOT, `${path}${ENDING}`)

/** As `ownModule`, as a URL, for threads and dynamic imports. */
export const ownModuleUrl = (path: string): string => pathToFileURL(ownModule(path)).href
