// The part of `jmespath` 0.16.0 that is used: the package has no types.
declare module 'jmespath' {
  export interface Expression {
    readonly type: string
    readonly name?: unknown
    readonly value?: unknown
    readonly children?: readonly Expression[]
  }
  /** Throws an Error with a message about the text. */
  export function compile(expression: string): Expression
  /** Throws an Error with a message about the values. */
  export function search(data: unknown, expression: string): unknown
}
