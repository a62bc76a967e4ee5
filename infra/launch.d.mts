/** Whether a version such as `1.4.4` or `1.5.0-canary.2` is at least the wanted one. */
export const isAtLeast: (version: string, wanted: string) => boolean
/** The npm packages that hold Bun's binary for a machine, best first; none when there is none. */
export const bunPackages: (machine: { platform: string; arch: string; musl: boolean; avx2: boolean }) => string[]
