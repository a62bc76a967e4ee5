// C5: the control topics that earlier builds wrote fold to the state that those builds had. `bun tests/faults/control/golden.ts`
import { goldenDigest, goldenNames, readGolden } from '../../fixtures/golden-log.ts'
import { conclude, type Figure } from './figures.ts'

export const golden = (): readonly Figure[] => {
  const names = goldenNames()
  let records = 0
  const mismatches: string[] = []
  for (const name of names) {
    const log = readGolden(name)
    const { version, digest, tip, counts } = goldenDigest(log.records)
    records += log.records.length
    const whole = counts.counted === log.records.length && tip === log.header.tip
    if (!whole || log.header.digests[version] !== digest) mismatches.push(name)
  }
  const told = mismatches.length === 0 ? '' : ` (${mismatches.join(', ')})`
  const figure = `digest mismatches ${mismatches.length} of ${names.length} logs${told}, ${records} records`
  const what = `golden logs of ${names.join(', ')} folded by this build`
  return [{ row: 'C5', what, figure, n: names.length, good: names.length > 0 && mismatches.length === 0 }]
}

if (import.meta.main) conclude(golden())
