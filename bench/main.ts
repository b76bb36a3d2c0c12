// npm run bench [-- --quick] [NAME …]: all scenarios, or some, one after the other; a report and a picture of it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import { dirname, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { picture, type Panel } from './frame/picture.js'
import { panelsIn } from './frame/read-tables.js'
import { summary } from './frame/summary.js'

interface Scenario {
  readonly file: string
  /** Left out of `--quick` unless it is named. */
  readonly slow?: boolean
}

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  tasks: { file: 'tasks/main.ts' },
  job: { file: 'job/main.ts' },
  policies: { file: 'policies/main.ts' },
  redis: { file: 'redis/main.ts' },
  bullmq: { file: 'bullmq/main.ts' },
  postgres: { file: 'postgres/main.ts' },
  growth: { file: 'growth/main.ts', slow: true },
  bulk: { file: 'bulk/main.ts' },
  ndjson: { file: 'ndjson/main.ts' },
  content: { file: 'content/main.ts' },
  fanout: { file: 'fanout/main.ts' },
  hostile: { file: 'ndjson/hostile.ts', slow: true },
}

const { values: { quick, out }, positionals } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, out: { type: 'string' } }, allowPositionals: true,
})
for (const name of positionals) {
  if (!(name in SCENARIOS)) throw new Error(`bench: there is no ${name}; there are ${Object.keys(SCENARIOS).join(', ')}`)
}
const chosen = Object.entries(SCENARIOS).filter(([name, { slow }]) => (positionals.length > 0 ? positionals.includes(name) : !(quick && slow === true)))
const folder = resolve(import.meta.dirname)
const began = Date.now()
const reports: string[] = []
const panels: Panel[] = []
const failed: string[] = []

const [{ model = 'unknown' } = {}] = cpus()
const machine = `Node ${process.versions.node} on ${cpus().length} cores (${model}), ${new Date().toISOString().slice(0, 10)}${quick ? ', --quick' : ''}`
const heading = 'longhaul over what one would write otherwise: longer is better, 1 is as fast'
const command = `npm run bench${quick || positionals.length > 0 ? ' --' : ''}${quick ? ' --quick' : ''}${positionals.map((name) => ` ${name}`).join('')}`
// Only a whole run writes the picture of the project.
const target = out ?? (positionals.length === 0 && !quick ? resolve(folder, '../docs/bench.svg') : resolve(folder, '../node_modules/.cache/longhaul-bench/bench.svg'))

for (const [name, { file }] of chosen) {
  const since = Date.now()
  process.stdout.write(`\n== ${name}\n\n`)
  const report = await run(file)
  if (report === undefined) {
    failed.push(name)
    continue
  }
  reports.push(`## ${name}\n\n${report.trim()}\n\n${Math.round((Date.now() - since) / 1000)} s`)
  panels.push(...panelsIn(name, report))
  // Writes after each scenario, because a run takes half an hour and may be stopped.
  await publish()
}
process.stdout.write(`\n${chosen.length - failed.length} of ${chosen.length} scenarios in ${Math.round((Date.now() - began) / 1000)} s; the picture and the report: ${target}\n`)
if (failed.length > 0) {
  process.stderr.write(`failed: ${failed.join(', ')}\n`)
  process.exitCode = 1
}

/** Writes the report and the picture of what has been measured so far. */
async function publish(): Promise<void> {
  const soFar = reports.length < chosen.length ? ` So far ${reports.length} of ${chosen.length} scenarios.` : ''
  await mkdir(dirname(target), { recursive: true })
  await writeFile(target, picture(heading, machine, summary(panels)))
  await writeFile(target.replace(/\.svg$/, '.md'), `# Benchmarks\n\n${machine}, \`${command}\`. What is measured and where the time goes: bench/README.md.${soFar}\n\n${reports.join('\n\n')}\n`)
}

/** Runs a scenario, and shows its output as it arrives. Returns the output, or `undefined` if it failed. */
async function run(file: string): Promise<string | undefined> {
  const child = spawn(process.execPath, ['--import', 'tsx', resolve(folder, file), ...quick ? ['--quick'] : []], { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.on('data', (chunk: Buffer) => {
    text += chunk.toString()
    process.stdout.write(chunk)
  })
  const [code] = await once(child, 'close') as [number | null]
  return code === 0 ? text : undefined
}
