// npm run bench:partial [-- --quick]: streams of partial results on PostgreSQL, without and with a reader each: how many
// transactions they cost the server, and the CPU of the process that runs them.
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { toNode } from 'longhaul/node'
import { partialResults } from 'longhaul/partial'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { startPostgres } from '../../test/servers/postgres-server.js'
import { table } from '../frame/table.js'

const { values: { quick, gather } } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, gather: { type: 'string' } },
})
const STREAMS = 100
const TOKENS_PER_SECOND = 60
/** Time before the count, in which all tasks begin and all readers connect, and time of the count, in seconds. */
const [START, MEASURED] = [5, quick ? 5 : 20]
const TOKEN = ' token'

const server = await startPostgres({ fsync: true })
const rows: string[][] = []
for (const readers of [0, STREAMS]) rows.push(await measure(readers))
await server.stop()
process.stdout.write(`${STREAMS} tasks on PostgreSQL (${TOKENS_PER_SECOND} partial results a second each, default options), \
one process of Node ${process.versions.node}, ${MEASURED} s.

${table(['readers', 'transactions a second', 'emitted a second', 'read a second', 'CPU of the process'], rows)}
`)

async function measure(readers: number): Promise<string[]> {
  const name = `readers_${readers}`
  await server.query(`CREATE DATABASE ${name}`)
  const pool = new pg.Pool({ connectionString: server.url.replace(/\/postgres$/, `/${name}`) })
  const parts = postgres({ pool })
  const words = partialResults<string>({ store: parts.store, ...gather !== undefined && { gatherMs: Number(gather) } })
  let emitted = 0
  let isOver = false
  const answer = defineTask({
    name: 'answer', external: words.external, maxPerOwner: STREAMS,
    run: words.run(async (_: unknown, { emit }) => {
      const began = performance.now()
      for (let count = 0; !isOver; count++) {
        // The next token is due at a time, so that a late timer does not slow the stream down.
        await sleep(Math.max(0, began + count * 1000 / TOKENS_PER_SECOND - performance.now()))
        await emit(TOKEN)
        emitted++
      }
      return {}
    }),
  })
  const tasks = createTasks({ ...parts, definitions: [answer], concurrency: STREAMS })
  const endpoints = taskEndpoints(tasks, { statusPath: '/answers/{id}', owner: 'anyone' })
  const http = createServer(toNode(router({
    'GET /answers/{id}': endpoints.status, 'GET /answers/{id}/partial-results': words.endpoint(endpoints),
  })))
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  const { port } = http.address() as AddressInfo
  const ids = await Promise.all(Array.from({ length: STREAMS }, () => tasks.submit(answer, {})))
  let read = 0
  const open = ids.slice(0, readers).map(({ taskId }) => {
    const path = `/answers/${taskId}/partial-results`
    return request({ port, path, headers: { accept: 'text/event-stream' } }, (response) => {
      response.on('data', (chunk: Buffer) => { read += chunk.toString().split('data: ').length - 1 })
    }).on('error', () => undefined).end()
  })
  await sleep(START * 1000)
  const before = { transactions: await committed(name), emitted, read, cpu: process.cpuUsage(), at: performance.now() }
  await sleep(MEASURED * 1000)
  const seconds = (performance.now() - before.at) / 1000
  const { user, system } = process.cpuUsage(before.cpu)
  const counts = [emitted - before.emitted, read - before.read]
  const transactions = await committed(name) - before.transactions
  const [sent = 0, got = 0] = counts.map((count) => count / seconds)
  const row = [
    String(readers), (transactions / ((performance.now() - before.at) / 1000)).toFixed(0), sent.toFixed(0), got.toFixed(0),
    `${((user + system) / 1e4 / seconds).toFixed(0)} %`,
  ]
  isOver = true
  for (const each of open) each.destroy()
  http.closeAllConnections()
  http.close()
  await tasks.close()
  await pool.end()
  return row
}

async function committed(name: string): Promise<number> {
  // The server adds the transactions of a session up once a second at most.
  await sleep(1100)
  const [row] = (await server.query(`SELECT xact_commit FROM pg_stat_database WHERE datname = '${name}'`)) as { xact_commit: string }[]
  return Number(row?.xact_commit ?? NaN)
}
