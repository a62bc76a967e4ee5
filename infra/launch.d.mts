/** Whether a version such as `1.4.4` or `1.5.0-canary.2` is at least the wanted one. */
export const isAtLeast: (version: string, wanted: string) => boolean
/** The npm packages that hold Bun's binary for a machine, best first; none when there is none. */
export const bunPackages: (machine: { platform: string; arch: string; musl: boolean; avx2: boolean }) => string[]
/** Settings of the runtime's memory, where the environment does not set them. */
export const MEMORY: Readonly<Record<string, string>>
/** The same for a process with that many cores. */
export const memoryOn: (cores: number) => Readonly<Record<string, string>>
/** The settings, if Bun starts with them; none otherwise. */
export const knownOf: (bun: string, settings: Readonly<Record<string, string>>) => Readonly<Record<string, string>>
