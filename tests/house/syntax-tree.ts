// Nodes of a syntax tree of oxc, and the way through them.
import { visitorKeys } from 'oxc-parser'

/** A node as ESTree has it; offsets count UTF-16 units of the source. */
export interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [key: string]: unknown
}

/** The nodes right below this one, in the order of the source. */
export const childrenOf = (node: Node): Node[] =>
  (visitorKeys[node.type] ?? []).flatMap((key) => {
    const child = node[key] as Node | (Node | null)[] | null | undefined
    return (Array.isArray(child) ? child : [child]).filter((each) => each !== null && each !== undefined)
  })

/** Calls `visit` with every node below and including this one, and the node above it. */
export const walk = (
  node: Node,
  visit: (node: Node, parent: Node | null) => void,
  parent: Node | null = null,
): void => {
  visit(node, parent)
  for (const child of childrenOf(node)) walk(child, visit, node)
}
