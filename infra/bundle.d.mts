/** The program to start for the sources at `root`: `cli.js` of their bundle, made first where it is missing; `cli.ts`, said on stderr, where none can be made. */
export const commandsOf: (root: string, bun: string, version: string) => string
