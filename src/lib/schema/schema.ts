// The one door to TypeBox: its version is pinned to what Elysia compiles (0.34.x), so nobody else imports it.
export { FormatRegistry, Kind, type Static, type TSchema, Type as t } from '@sinclair/typebox'
export { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
export { Value } from '@sinclair/typebox/value'
