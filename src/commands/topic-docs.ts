// `gateway topics --docs`: writes the documents of the topics, `docs/topics.md` and `docs/asyncapi.json`, from the
// schemas and the recorded events.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { codeOf } from '../lib/process/error-code.ts'
import { asyncApiText, type RecordedExamples } from '../upkeep/contracts/asyncapi.ts'
import { topicsPage } from '../upkeep/contracts/topics-page.ts'

const ROOT = join(import.meta.dir, '../..')
const EXAMPLES = join(ROOT, 'tests/fixtures/events')

/** One recorded line of each event type, as it stood in the log. Throws where there is no source tree. */
export const recordedExamples = (): RecordedExamples =>
  Object.fromEntries(
    readdirSync(EXAMPLES).map((name) => [
      name.replace(/\.json$/, ''),
      JSON.parse(readFileSync(join(EXAMPLES, name), 'utf8')),
    ]),
  )

/** Path below the root -> text, as they have to stand there. */
export const topicDocuments = (): Readonly<Record<string, string>> => {
  const examples = recordedExamples()
  return { 'docs/topics.md': topicsPage(examples), 'docs/asyncapi.json': asyncApiText(examples) }
}

/** Writes the documents; the exit code. */
export const topicDocsCommand = async (out: {
  print(line: string): void
  complain(line: string): void
}): Promise<number> => {
  try {
    for (const [path, text] of Object.entries(topicDocuments())) {
      await Bun.write(join(ROOT, path), text)
      out.print(`${path} is written`)
    }
    return 0
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error
    out.complain('topics --docs needs the source tree with its tests: the examples are tests/fixtures/events')
    return 1
  }
}
