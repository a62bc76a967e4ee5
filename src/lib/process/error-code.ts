// System errors carry a code (`ENOENT`, `EADDRINUSE`, `ECONNREFUSED`) that TypeScript does not declare.

/** The `code` of an error, or null. */
export const codeOf = (error: unknown): string | null =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null
