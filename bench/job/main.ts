// npm run bench -- job [--quick]: whole jobs, from the submission to the poll that shows the result, beside the peers.
import { parseArgs } from 'node:util'
import { buildPrograms } from '../frame/build.js'
import { compare, type Row } from '../frame/compare.js'
import { PINNED } from '../frame/program.js'
import { table } from '../frame/table.js'
import { versionsOf } from '../frame/versions.js'
import { BODY } from '../tasks/work.js'

const { values: { quick } } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })
const SERVERS = ['bare', 'hand-written', 'longhaul', 'fastify', 'h3', 'hono', 'koa', 'express']
const names = quick ? ['bare', 'hand-written', 'longhaul', 'fastify'] : SERVERS
const submit = [
  'POST /reports HTTP/1.1', 'Host: 127.0.0.1', 'User-Agent: bench', 'Accept: */*', 'Prefer: respond-async',
  'Content-Type: application/json', `Content-Length: ${Buffer.byteLength(BODY)}`, '', BODY,
].join('\r\n')
const poll = ['GET /tasks/{id} HTTP/1.1', 'Host: 127.0.0.1', 'User-Agent: bench', 'Accept: */*', '', ''].join('\r\n')

const program = await buildPrograms('job', {
  load: 'bench/job/load.ts', ...Object.fromEntries(names.map((name) => [name, `bench/tasks/servers/${name}.ts`])),
})
const starts = quick ? 1 : 3
const rounds = quick ? 3 : 5
const compared = (name: string, batch: number) => compare({
  servers: Object.fromEntries(names.map((each) => [each, program(each)])), load: program('load'),
  scenarios: [{ name, batch, warmUp: quick ? 2000 : 6000, prepare: async () => ({ requests: [submit, poll], expectStatus: 200 }) }],
  starts, rounds, connections: 32, onProgress: (text) => process.stderr.write(`${name}: ${text}\n`),
})
const rows = await compared('no time', quick ? 2000 : 4000)
// Without the bare server, whose tasks end at once.
process.env['WORK_MS'] = '5'
names.splice(names.indexOf('bare'), 1)
rows.push(...await compared('5 ms', 2000))
const shown = ({ median, low, high }: Row['ratio']): string => `${median.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`
process.stdout.write(`${versionsOf('fastify', ...quick ? [] : ['h3', 'hono', 'koa', 'express'])}.
A job: POST, 202, work that takes no time or awaits 5 ms, polls until its result is there. ${starts} starts of ${rounds} rounds, 32 connections, ${PINNED ? 'each server pinned to one core' : 'not pinned'}.
Ratio: what bare node:http takes for the same bytes over what the server takes; median (quartiles). The bare one needs no second poll.
With work of 5 ms it has no part: the ratio is to node:http and a Map by hand. Polls follow one another at once.

${table(['job', 'scenario', 'by CPU', 'by time', 'CPU', 'p99'], rows.map((row) => [
    row.server, row.scenario, shown(row.ratio), shown(row.wall), `${row.micros.median.toFixed(1)} µs`, `${row.p99.median.toFixed(1)} ms`,
  ]))}
`)
