/** Whether a version such as `1.4.4` or `1.5.0-canary.2` is at least the wanted one. */
export const isAtLeast: (version: string, wanted: string) => boolean
/** The npm packages that hold Bun's binary for a machine, best first; none when there is none. */
export const bunPackages: (machine: { platform: string; arch: string; musl: boolean; avx2: boolean }) => string[]
/** What a gateway is started with, where the environment does not say otherwise: how the runtime keeps memory. */
export const MEMORY: Readonly<Record<string, string>>
/** The same for a process that has so many cores. */
export const memoryOn: (cores: number) => Readonly<Record<string, string>>
/** The settings, if that Bun starts with them; none otherwise. */
export const knownOf: (bun: string, settings: Readonly<Record<string, string>>) => Readonly<Record<string, string>>
