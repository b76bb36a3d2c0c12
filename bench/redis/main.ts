// npm run bench:redis [-- --quick]: commands of a task; CPU time of the Redis engine beside one raw command of ioredis for each request; 1, 2 and 4
// web processes. `-- --commands` prints the commands only.
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import { commandsOf, SCENES } from '../../test/faults/kit/redis-commands.js'
import { RedisServer } from '../../test/servers/redis-server.js'
import { buildPrograms } from '../frame/build.js'
import { compare, type Scenario } from '../frame/compare.js'
import { Load, ServerProgram } from '../frame/program.js'
import { spread } from '../frame/stats.js'
import { table } from '../frame/table.js'
import { versionsOf } from '../frame/versions.js'

const { values: { quick, commands } } = parseArgs({ options: { quick: { type: 'boolean', default: false }, commands: { type: 'boolean', default: false } } })
const counting = await RedisServer.start()
const counts: string[][] = []
for (const scene of SCENES) {
  const found = await commandsOf(counting.url, scene)
  counts.push([scene.name, found.commands.toFixed(1), found.scripts.toFixed(2)])
}
await counting.stop()
process.stdout.write(`Commands of Redis for a task with owner, limit and key (its submission, begin and end), those of scripts included.

${table(['tasks', 'commands', 'scripts'], counts)}

`)
if (commands) process.exit()
const BODY = '{"month":"2026-10"}'
const POST = [
  'POST /reports HTTP/1.1', 'Host: 127.0.0.1', 'User-Agent: bench', 'Accept: */*', 'Prefer: respond-async',
  'Content-Type: application/json', `Content-Length: ${Buffer.byteLength(BODY)}`, '', BODY,
].join('\r\n')
const get = (id: string): string => [`GET /tasks/${id} HTTP/1.1`, 'Host: 127.0.0.1', 'User-Agent: bench', 'Accept: */*', '', ''].join('\r\n')

const batch = quick ? 2000 : 5000
const scenarios: Scenario[] = [
  { name: 'accept 202', batch, warmUp: 2 * batch, prepare: async () => ({ requests: [POST], expectStatus: 202 }) },
  {
    name: 'poll 200', batch, warmUp: 2 * batch,
    prepare: async (run) => {
      const bodies = await run({ requests: [POST], expectStatus: 202, count: 100, keepBodies: 100 })
      return { requests: bodies.map((body) => get((JSON.parse(body) as { taskId: string }).taskId)), expectStatus: 200 }
    },
  },
]

const redis = process.env['REDIS_URL'] === undefined ? await RedisServer.start() : undefined
if (redis) process.env['REDIS_URL'] = redis.url
const names = ['raw', 'fields', 'longhaul']
const program = await buildPrograms('redis', Object.fromEntries(names.map((name) => [name, `bench/redis/servers/${name}.ts`])))
const rows = await compare({
  servers: Object.fromEntries(names.map((name) => [name, program(name)])), load: program('load'),
  scenarios, starts: quick ? 1 : 5, rounds: quick ? 4 : 6, connections: 32, onProgress: (text) => process.stderr.write(`${text}\n`),
})
const manyRounds = quick ? 2 : 5
const many: string[][] = []
for (const processes of [1, 2, 4]) {
  process.stderr.write(`${processes} web processes\n`)
  const cells: string[] = []
  for (const name of ['raw', 'longhaul']) {
    const servers = await Promise.all(Array.from({ length: processes }, () => ServerProgram.start(program(name), 'any')))
    const loads = await Promise.all(servers.map(() => Load.start(program('load'), 'any')))
    const accept = async (count: number): Promise<number> => {
      const began = performance.now()
      await Promise.all(loads.map((load, at) => load.run({
        port: (servers[at] as ServerProgram).port, requests: [POST], expectStatus: 202, count: count / processes, connections: 64 / processes,
      })))
      return count / (performance.now() - began) * 1000
    }
    await accept(2 * batch)
    const rates: number[] = []
    for (let round = 0; round < manyRounds; round++) rates.push(await accept(2 * batch))
    cells.push(spread(rates).median.toFixed(0))
    await Promise.all([...servers, ...loads].map((each) => each.stop()))
  }
  many.push([String(processes), ...cells])
}
await redis?.stop()
process.stdout.write(`${versionsOf('ioredis')}.
Ratio: CPU for a request of node:http with one raw ioredis command over that of the server; median (quartiles).

${table(['', 'scenario', 'ratio', 'CPU'], rows.map(({ server, scenario, ratio, micros }) => [
    server, scenario, `${ratio.median.toFixed(2)} (${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)})`, `${micros.median.toFixed(1)} µs`,
  ]))}

Accepts a second of several web processes on one Redis, 64 connections in all, on ${availableParallelism()} cores that the load and Redis share; medians.

${table(['web processes', 'one raw command', 'longhaul'], many)}
`)
