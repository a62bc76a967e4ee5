// First start in an empty folder to ready (Postgres initialises itself), then later starts. On an installed checkout.
import { startGateway } from '../../services/gateway.ts'
import { percentiles } from '../oracle.ts'

const ROUNDS = Number(process.argv[2] ?? 5)
const first: { serving: number[]; ready: number[] } = { serving: [], ready: [] }
const later: { serving: number[]; ready: number[] } = { serving: [], ready: [] }
for (let round = 0; round < ROUNDS; round++) {
  const gateway = startGateway()
  first.serving.push(await gateway.until('serving'))
  first.ready.push(await gateway.until('ready'))
  for (let again = 0; again < 2; again++) {
    await gateway.end()
    gateway.start()
    later.serving.push(await gateway.until('serving'))
    later.ready.push(await gateway.until('ready'))
  }
  await gateway.remove()
}
const line = (name: string, { serving, ready }: typeof first) => {
  const [s, r] = [percentiles(serving), percentiles(ready)]
  console.log(
    `${name}: serving ms p50 ${s.p50.toFixed(0)}, max ${s.max.toFixed(0)}; ready ms p50 ` +
      `${r.p50.toFixed(0)}, max ${r.max.toFixed(0)} (N ${ready.length})`,
  )
}
line('first start', first)
line('later starts', later)
process.exit(Math.max(...first.ready) < 6_000 && Math.max(...later.ready) < 1_500 ? 0 : 1)
