// Variables of modules that change after the module is loaded, and why each may: it outlives a request and is not
// passed in, so no result may depend on it.
import type { Node } from './syntax-tree.ts'

/** A variable of a module. */
export interface ModuleVariable {
  readonly name: string
  /** `let`, the class of which it is made, or a container that the module writes to. */
  readonly kind: 'let' | 'object' | 'container'
}

/** Built-in classes whose instances keep nothing between calls. */
const STATELESS = new Set(['RegExp', 'Error', 'TextEncoder', 'TextDecoder', 'Intl.NumberFormat', 'Intl.DateTimeFormat'])
const CONTAINERS = new Set(['Map', 'Set'])
const WRITES = String.raw`\.(?:set|add|delete|clear|push|pop|shift|unshift|splice|length =)|\[[^\]]*\] =[^=]`

const nameOf = (node: Node | null | undefined): string | null =>
  node?.type === 'Identifier'
    ? (node.name as string)
    : node?.type === 'MemberExpression'
      ? `${nameOf(node.object as Node)}.${nameOf(node.property as Node)}`
      : null

const kindOf = (name: string, init: Node | null, text: string): ModuleVariable['kind'] | null => {
  if (init === null) return null
  const isWritten = () => new RegExp(`(?<![.\\w])${name}(?:${WRITES})`).test(text)
  if (init.type === 'ArrayExpression' || init.type === 'ObjectExpression') return isWritten() ? 'container' : null
  if (init.type !== 'NewExpression') return null
  const made = nameOf(init.callee as Node) ?? ''
  if (STATELESS.has(made)) return null
  return CONTAINERS.has(made) ? (isWritten() ? 'container' : null) : 'object'
}

/** The variables of a module that may change: each `let`, and each `const` of an object that can be written to. */
export const variablesOf = (program: Node, text: string): ModuleVariable[] =>
  (program.body as Node[]).flatMap((statement) => {
    const declaration = ((statement.declaration as Node | null | undefined) ?? statement) as Node
    if (declaration.type !== 'VariableDeclaration') return []
    return (declaration.declarations as Node[]).flatMap(({ id, init }) => {
      const name = nameOf(id as Node) ?? text.slice((id as Node).start, (id as Node).end)
      const kind = declaration.kind === 'let' ? 'let' : kindOf(name, init as Node | null, text)
      return kind === null ? [] : [{ name, kind }]
    })
  })

const THREAD = 'state of a thread, which loads the module once and has no other place for it'
const FIRST_USE = 'made on first use, once for each thread'
const LAST = 'the last result of a pure function'

/** Path and name of each `let` of a module -> the reason. */
export const LETS: Readonly<Record<string, string>> = {
  'src/domain/kernel/decision.ts last': LAST,
  'src/domain/kernel/packed-table.ts hashedText': LAST,
  'src/domain/kernel/packed-table.ts textHash': LAST,
  'src/lib/event-loop/shared-buffer.ts shared': FIRST_USE,
  'src/lib/http-server/output.ts dateLine': LAST,
  'src/lib/http-server/output.ts dateSecond': LAST,
  'src/lib/time/wall-clock.ts aheadMs': 'a process has one clock',
  'src/lib/http/large-read-pacing.ts bytesSinceCollection': 'a process has one heap',
  'src/lib/http/large-read-pacing.ts resumedInIteration': 'a process has one event loop',
  'src/lib/http/large-read-pacing.ts scheduled': 'a process has one event loop',
  'src/lib/http/large-read-pacing.ts waiting': 'a process has one event loop; at most one entry for each reader',
  'src/lib/packed-table/uuid-bytes.ts scratchPrefix': LAST,
  'src/lib/process/failpoints.ts onReached': 'null outside of fault tests',
  'src/lib/time/iso-time.ts putDay': LAST,
  'src/log/kafka/packed-batch.ts packer': FIRST_USE,
  'src/log/sender/worker.ts opened': THREAD,
  'src/log/sender/worker.ts ship': THREAD,
  'src/log/sender/worker.ts started': THREAD,
  'src/upkeep/models/capability-snapshot.ts loaded': 'a file of the program, which never changes while it runs',
  'src/upkeep/models/price-snapshot.ts loaded': 'a file of the program, which never changes while it runs',
}

/** Path and name of each other variable of `src/inference`, `src/wire` and `src/entry` that changes -> its bound. */
export const CACHES: Readonly<Record<string, string>> = {
  'src/inference/intent/format-schemas.ts cache':
    'compiled schemas by digest, bounded by what they weigh; least recently used are evicted',
  'src/inference/plan/candidates.ts cache': 'sets of a policy and a version of the catalogue; all evicted at the bound',
  'src/inference/plan/digest.ts digested': 'digests live as long as their list of candidates',
  'src/inference/plan/frame-view.ts byFrame': 'views live as long as their frame and list',
  'src/inference/records/raw-usage.ts MATCHED': 'names that matched, up to the bound',
}
