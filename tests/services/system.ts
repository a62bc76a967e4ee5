// What the tests need of the machine beyond Bun: checked first, installed on Debian as root, named otherwise.
import { existsSync } from 'node:fs'

interface Need {
  readonly what: string
  /** Debian packages that provide it. */
  readonly packages: readonly string[]
  readonly present: () => boolean
}

const prints = (command: readonly string[]): string | null => {
  try {
    const { exitCode, stdout, stderr } = Bun.spawnSync([...command], {
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    })
    return exitCode === 0 ? `${stdout}${stderr}` : null
  } catch {
    return null // not installed
  }
}

const NEEDS: readonly Need[] = [
  {
    what: 'Java 17 or later (for the Kafka broker)',
    packages: ['default-jdk-headless'],
    present: () => Number(/version "(\d+)/.exec(prints(['java', '-version']) ?? '')?.[1] ?? 0) >= 17,
  },
  {
    what: 'Maven (fetches the Kafka broker)',
    packages: ['maven'],
    present: () => prints(['mvn', '--version']) !== null,
  },
  { what: 'redis-server', packages: ['redis-server'], present: () => prints(['redis-server', '--version']) !== null },
  {
    what: 'Python 3 with pip (for the Python SDK)',
    packages: ['python3', 'python3-pip'],
    present: () => prints(['python3', '-m', 'pip', '--version']) !== null,
  },
]

/** Returns what is still missing and the one command that mends it, or null. Installs on Debian as root. */
export const provideSystemNeeds = async (): Promise<string | null> => {
  const missing = NEEDS.filter(({ present }) => !present())
  if (missing.length === 0) return null
  const packages = missing.flatMap((need) => need.packages)
  const debian = existsSync('/etc/debian_version')
  const install = `apt-get install -y --no-install-recommends ${packages.join(' ')}`
  if (debian && process.getuid?.() === 0) {
    console.log(`installing ${packages.join(', ')}`)
    const shell = Bun.spawn(['sh', '-c', `apt-get update -qq && ${install}`], {
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'inherit',
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    })
    await shell.exited
  }
  const still = missing.filter(({ present }) => !present())
  if (still.length === 0) return null
  const mend = debian
    ? `sudo apt-get update && sudo ${install}`
    : `install ${packages.join(', ')} with your package manager`
  return `missing: ${still.map(({ what }) => what).join('; ')}. Run: ${mend}`
}
