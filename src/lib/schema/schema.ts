// The only import of TypeBox: its version is pinned to the one that Elysia compiles (0.34.x).
export { FormatRegistry, Kind, type Static, type TSchema, Type as t } from '@sinclair/typebox'
export { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
export { Value } from '@sinclair/typebox/value'
