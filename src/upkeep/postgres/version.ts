// Which major version of Postgres made a cluster: no other one reads it.
import { existsSync, readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { findNative } from './install.ts'

/** Two major versions that differ. */
export interface OtherVersion {
  readonly made: string
  readonly runs: string
}

/** Of a cluster and of the server of this build, where they differ; null: they agree, or it cannot be told. */
export const otherVersion = (cluster: string): OtherVersion | null => {
  const file = join(cluster, 'PG_VERSION')
  const made = existsSync(file) ? readFileSync(file, 'utf8').trim() : ''
  if (!/^\d+(\.\d+)?$/.test(made)) return null // damaged, or half made: the server says what it thinks of it
  const runs = serverVersion()
  return made === runs ? null : { made, runs }
}

const serverVersion = (): string => {
  const { version } = JSON.parse(readFileSync(join(findNative(), '..', 'package.json'), 'utf8')) as { version: string }
  return version.slice(0, version.indexOf('.'))
}

/** Gives a cluster that no process uses another name beside its own, and answers it. Nothing is deleted: it may hold what the log no longer does. */
export const moveAside = (cluster: string, { made }: OtherVersion): string => {
  for (let number = 1; ; number++) {
    const aside = `${cluster}.${made}${number === 1 ? '' : `-${number}`}`
    if (existsSync(aside)) continue
    renameSync(cluster, aside)
    return aside
  }
}
