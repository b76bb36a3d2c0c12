// node --import tsx bench/tasks/beside.ts --with <folder of another work tree> [--redis]
// Compares the CPU time of accepts and polls with that of another version of this package, in memory or over Redis.
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { RedisServer } from '../../test/servers/redis-server.js'
import type * as Build from '../frame/build.js'
import { compare } from '../frame/compare.js'
import { BODY } from './work.js'

const { values: { with: other, starts, redis } } = parseArgs({
  options: { with: { type: 'string' }, starts: { type: 'string', default: '4' }, redis: { type: 'boolean', default: false } },
})
if (other === undefined) throw new TypeError('name the other work tree: --with ../before')

const POST = [
  'POST /reports HTTP/1.1', 'Host: 127.0.0.1', 'User-Agent: bench', 'Accept: */*', 'Prefer: respond-async',
  'Content-Type: application/json', `Content-Length: ${Buffer.byteLength(BODY)}`, '', BODY,
].join('\r\n')
const get = (id: string): string => [`GET /tasks/${id} HTTP/1.1`, 'Host: 127.0.0.1', 'User-Agent: bench', 'Accept: */*', '', ''].join('\r\n')
const here = resolve(import.meta.dirname, '../..')
const servers = redis
  ? { redis: 'bench/redis/servers/longhaul.ts' }
  : { 'at-once': 'bench/tasks/servers/longhaul.ts', 'awaits': 'bench/tasks/servers/longhaul.ts' }
const redisServer = redis ? await RedisServer.start() : undefined
if (redisServer) process.env['REDIS_URL'] = redisServer.url

async function buildIn(root: string): Promise<(program: string) => string> {
  const { buildPrograms } = await import(pathToFileURL(resolve(root, 'bench/frame/build.ts')).href) as typeof Build
  const entries = Object.entries(servers).map(([name, file]) => [name, resolve(here, file)] as const)
  return buildPrograms(`beside-${root === here ? 'here' : 'other'}`, Object.fromEntries(entries))
}

const [ours, theirs] = [await buildIn(here), await buildIn(resolve(other))]
for (const name of Object.keys(servers)) {
  process.env['WORK_MS'] = name === 'awaits' ? '5' : '0'
  const rows = await compare({
    servers: { before: theirs(name), after: ours(name) }, load: ours('load'), starts: Number(starts), rounds: 6, connections: 32,
    scenarios: [
      { name: `accept, ${name}`, batch: 4000, warmUp: 10_000, prepare: async () => ({ requests: [POST], expectStatus: 202 }) },
      {
        name: `poll, ${name}`, batch: 4000, warmUp: 10_000,
        prepare: async (run) => {
          const bodies = await run({ requests: [POST], expectStatus: 202, count: 100, keepBodies: 100 })
          return { requests: bodies.map((body) => get((JSON.parse(body) as { taskId: string }).taskId)), expectStatus: 200 }
        },
      },
    ],
  })
  for (const { server, scenario, micros, ratio } of rows) {
    console.log(`${scenario}\t${server}\t${micros.median.toFixed(1)} µs\tratio ${ratio.median.toFixed(3)} (${ratio.low.toFixed(2)}-${ratio.high.toFixed(2)})`)
  }
}
await redisServer?.stop()
