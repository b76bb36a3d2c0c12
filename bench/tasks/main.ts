// npm run bench:tasks [-- --quick] [--only names] [--connections 64]: CPU time for accepting a task and for showing one, beside the peers, and a cold process.
import { parseArgs } from 'node:util'
import { buildPrograms } from '../frame/build.js'
import { compare, type Row, type Scenario } from '../frame/compare.js'
import { Load, PINNED, Program, SERVER_CORE, ServerProgram } from '../frame/program.js'
import { spread } from '../frame/stats.js'
import { table } from '../frame/table.js'
import { versionsOf } from '../frame/versions.js'
import { BODY } from './work.js'

const { values: { quick, only, connections } } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, only: { type: 'string' }, connections: { type: 'string', default: '32' } },
})

const SERVERS = [
  'bare', 'hand-written', 'longhaul', 'fastify', 'fastify-with-duties', 'in-fastify', 'h3', 'hono', 'koa',
  'express', 'express-with-duties', 'in-express',
]
const QUICK = ['bare', 'hand-written', 'longhaul', 'fastify']
const CONNECTIONS = Number(connections)
const HELD = ['hand-written', 'longhaul']
const RESULT_BYTES = '{"message":"The report for 2026-10 is ready.","rows":1002}'.length

const POST = [
  'POST /reports HTTP/1.1', 'Host: 127.0.0.1', 'User-Agent: bench', 'Accept: */*', 'Prefer: respond-async',
  'Content-Type: application/json', `Content-Length: ${Buffer.byteLength(BODY)}`, '', BODY,
].join('\r\n')

const get = (id: string): string => [`GET /tasks/${id} HTTP/1.1`, 'Host: 127.0.0.1', 'User-Agent: bench', 'Accept: */*', '', ''].join('\r\n')

const scenarios: Scenario[] = [
  {
    name: 'accept 202', batch: quick ? 3000 : 5000, warmUp: quick ? 4000 : 10_000,
    prepare: async () => ({ requests: [POST], expectStatus: 202 }),
  },
  {
    name: 'poll 200', batch: quick ? 3000 : 5000, warmUp: quick ? 4000 : 10_000,
    // A hundred tasks, which have ended when they are polled.
    prepare: async (run) => {
      const bodies = await run({ requests: [POST], expectStatus: 202, count: 100, keepBodies: 100 })
      const ids = bodies.map((body) => (JSON.parse(body) as { taskId: string }).taskId)
      return { requests: ids.map(get), expectStatus: 200 }
    },
  },
]

const names = only === undefined ? (quick ? QUICK : SERVERS) : ['bare', ...only.split(',')]
const program = await buildPrograms('tasks', {
  ...Object.fromEntries(names.map((name) => [name, `bench/tasks/servers/${name}.ts`])),
  ...Object.fromEntries(HELD.map((name) => [`held-${name}`, `bench/tasks/held/${name}.ts`])),
})
const starts = quick ? 1 : 4
const rounds = quick ? 4 : 5
const rows = await compare({
  servers: Object.fromEntries(names.map((name) => [name, program(name)])), load: program('load'),
  scenarios, starts, rounds, connections: CONNECTIONS, onProgress: (text) => process.stderr.write(`${text}\n`),
})

const held = new Map<string, number>()
const heldCount = quick ? 50_000 : 200_000
for (const name of HELD) {
  const [child, { bytes }] = await Program.start<{ bytes: number }>(program(`held-${name}`), SERVER_CORE, { node: ['--expose-gc'], args: [String(heldCount)] })
  await child.stop()
  held.set(name, bytes - RESULT_BYTES)
}

/** Accepts of each connection of a cold process. */
const COLD = 8
const coldStarts = quick ? 3 : 9
const cold: string[][] = []
const load = await Load.start(program('load'))
for (const name of names) {
  const samples: { readonly start: number, readonly all: number, readonly p99: number }[] = []
  for (let start = 0; start < coldStarts; start++) {
    const began = performance.now()
    const server = await ServerProgram.start(program(name))
    const startMs = performance.now() - began
    const { seconds, p99 } = await load.run({ port: server.port, requests: [POST], expectStatus: 202, count: 64 * COLD, connections: 64 })
    samples.push({ start: startMs, all: seconds * 1000, p99 })
    await server.stop()
  }
  cold.push([name, ...(['start', 'all', 'p99'] as const).map((what) => `${spread(samples.map((each) => each[what])).median.toFixed(0)} ms`)])
}
await load.stop()

const cell = ({ ratio, userRatio, micros, p99 }: Row): string[] => [
  `${ratio.median.toFixed(2)} (${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)})`, userRatio.median.toFixed(2), `${micros.median.toFixed(1)} µs`, `${p99.median.toFixed(1)} ms`,
]
process.stdout.write(`${versionsOf('fastify', ...quick ? [] : ['h3', 'hono', 'koa', 'express'])}; ${starts} starts of ${rounds} rounds, ${CONNECTIONS} connections, ${PINNED ? 'each server pinned to one core' : 'not pinned'}.
Ratio: CPU for a request of bare node:http over that of the server; median (quartiles). Beside it the
same by user CPU time, without the kernel, the CPU time itself, and the 99th percentile of the response time.

${table(
    ['', ...scenarios.flatMap(({ name }) => [name, 'by user time', 'CPU', 'p99']), 'held task'],
    names.map((name) => {
      const bytes = held.get(name)
      return [name, ...rows.filter(({ server }) => server === name).flatMap(cell), bytes === undefined ? '' : `${Math.round(bytes)} B`]
    }),
  )}

A held task: heap for each of ${heldCount.toLocaleString('en')} finished tasks beside the ${RESULT_BYTES} bytes of its result.

A cold process gets ${64 * COLD} accepts over 64 connections at once. Each response must be a 202. Medians of ${coldStarts} starts.

${table(['cold process', 'start until it listens', 'all accepts', 'p99'], cold)}
`)
