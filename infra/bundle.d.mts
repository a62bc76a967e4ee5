/**
 * The program to start for the sources at `root`: `cli.js` of their bundle, built first where it is missing; `cli.ts`,
 * with a message on stderr, where none can be built.
 */
export const commandsOf: (root: string, bun: string, version: string) => string
