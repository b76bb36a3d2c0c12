// npm run bench -- held [--quick]: heap of a million finished tasks.
import { parseArgs } from 'node:util'
import { buildPrograms } from '../frame/build.js'
import { Program, SERVER_CORE } from '../frame/program.js'
import { table } from '../frame/table.js'

const { values: { quick } } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })
const RESULT_BYTES = '{"message":"The report for 2026-10 is ready.","rows":1002}'.length
const NAMES = ['hand-written', 'longhaul']
const count = quick ? 100_000 : 1_000_000

const program = await buildPrograms('held', Object.fromEntries(NAMES.map((name) => [name, `bench/tasks/held/${name}.ts`])))
const held: string[][] = []
for (const name of NAMES) {
  process.stderr.write(`${name}: ${count} tasks\n`)
  const [child, { bytes }] = await Program.start<{ bytes: number }>(program(name), SERVER_CORE, { node: ['--expose-gc', '--max-old-space-size=8192'], args: [String(count)] })
  await child.stop()
  held.push([name, `${Math.round(bytes)} B`, `${Math.round(bytes - RESULT_BYTES)} B`, `${Math.round(bytes * count / 2 ** 20)} MiB`])
}
process.stdout.write(`Heap for ${count.toLocaleString('en')} finished tasks. The result of each is ${RESULT_BYTES} bytes long.

${table(['held tasks', 'each', 'beside its result', 'all'], held)}
`)
