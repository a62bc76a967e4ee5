// R2: `kill -9` at each failpoint under load, again and again: `bun tests/faults/failpoints.ts [--kills 20] [embedded |
// kafka] [name...]`.
// Everything that was reported complete must be there once afterwards: answers by their outcome, tenants by their row.
import { FAILPOINTS, type Failpoint } from '../../src/lib/process/failpoints.ts'
import { conclude, type Figure, numberArgument } from './control/figures.ts'
import { killAt, openEmbeddedGround, openKafkaGround, PLACES } from './failpoints/kills.ts'

const kills = numberArgument('kills', 20)
const words = process.argv.slice(2).filter((word) => /^[a-z_]+$/.test(word))
const wanted = FAILPOINTS.filter(
  (name) => !words.some((word) => FAILPOINTS.includes(word as Failpoint)) || words.includes(name),
)
const figures: Figure[] = []
for (const [adapter, open] of [
  ['embedded', openEmbeddedGround],
  ['kafka', openKafkaGround],
] as const) {
  const other = adapter === 'embedded' ? 'kafka' : 'embedded'
  const names = wanted.filter((name) => PLACES[name].on.includes(adapter))
  if (names.length === 0 || (words.includes(other) && !words.includes(adapter))) continue
  const ground = await open()
  try {
    for (const name of names) {
      const figure = await killAt(ground, name, kills)
      console.error(`${adapter} ${name}: ${figure.figure}`)
      figures.push(figure)
    }
  } finally {
    await ground.remove()
  }
}
conclude(figures)
