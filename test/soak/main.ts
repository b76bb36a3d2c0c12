// npm run test:soak [-- --engine memory|sqlite|redis|postgres --minutes 30 --seed 1 --per-second 25 --report report.md]
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { toMarkdown } from './report.js'
import { soak, type Engine } from './soak.js'

const { values } = parseArgs({ options: {
  'engine': { type: 'string', default: 'redis' },
  'minutes': { type: 'string', default: '30' }, 'seed': { type: 'string', default: String(Date.now() % 1_000_000) },
  'per-second': { type: 'string', default: '25' }, 'report': { type: 'string' },
} })
const seed = Number(values.seed)
console.log(`Seed ${String(seed)}; repeat it with --seed ${String(seed)}`)
const report = await soak({
  engine: values.engine as Engine,
  seconds: 60 * Number(values.minutes),
  seed,
  perSecond: Number(values['per-second']),
  everyMs: [2000, 10_000],
})
const text = toMarkdown(report)
console.log(text)
if (values.report !== undefined) writeFileSync(values.report, text)
process.exitCode = report.broken.length === 0 ? 0 : 1
