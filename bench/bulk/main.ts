// npm run bench:bulk [-- --quick --starts N --only reader|handler|memory|background]: many records in one request, beside the peers.
import { parseArgs } from 'node:util'
import { startPostgres } from '../../test/servers/postgres-server.js'
import { buildPrograms } from '../frame/build.js'
import { compare, type Row, type Scenario } from '../frame/compare.js'
import { PINNED, Program, SERVER_CORE } from '../frame/program.js'
import { spread } from '../frame/stats.js'
import { table } from '../frame/table.js'
import { turned } from '../frame/turn.js'
import { versionsOf } from '../frame/versions.js'
import { ARRAY_KINDS } from './arrays.js'
import { PER_BODY, type How } from './background.js'
import { uploadUsers } from './upload.js'
import { usersText } from './users.js'

interface Told { readonly samples: Readonly<Record<string, number[]>> }

const { values: { quick, only, starts: wantedStarts } } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, only: { type: 'string' }, starts: { type: 'string' } },
})
const SERVERS = ['limit', 'longhaul', 'express-ajv', 'express-zod', 'express-valibot', 'fastify-ajv', 'fastify-zod', 'fastify-valibot']
const QUICK = ['limit', 'longhaul', 'fastify-ajv', 'express-zod']
const names = quick ? QUICK : SERVERS
const starts = Number(wantedStarts ?? (quick ? 1 : 3))
const rounds = quick ? 3 : 4
const program = await buildPrograms('bulk', {
  read: 'bench/bulk/read-program.ts', background: 'bench/bulk/background-program.ts', ...Object.fromEntries(names.map((name) => [name, `bench/bulk/servers/${name}.ts`])),
})
const wanted = (part: string): boolean => only === undefined || only === part
const tell = (text: string): void => { process.stdout.write(`${text}\n\n`) }

tell(`${versionsOf('express', 'fastify', 'ajv', 'zod', 'valibot', 'stream-json', '@discoveryjs/json-ext')}; ${starts} starts of ${rounds} rounds, ${PINNED ? 'each program pinned to one core' : 'not pinned'}.`)
if (wanted('reader')) tell(await readers())
if (wanted('handler')) tell(await handlers())
if (wanted('memory')) tell(await memory())
if (wanted('background')) tell(await background())

/** Returns the CPU time of the first reader divided by that of each, run by run, over several processes. */
async function readers(): Promise<string> {
  const rows = new Map<string, string[]>()
  for (const [column, kind] of ARRAY_KINDS.entries()) {
    const ratios = new Map<string, number[]>()
    for (let start = 1; start <= starts; start++) {
      process.stderr.write(`reading ${kind}: start ${start} of ${starts}\n`)
      const [child] = await Program.start(program('read'), SERVER_CORE, { args: [kind, String(quick ? 2 : rounds)] })
      const { samples } = await child.next<Told>()
      const limit = Object.values(samples)[0] as number[]
      for (const [reader, micros] of Object.entries(samples)) {
        ratios.set(reader, [...ratios.get(reader) ?? [], ...micros.map((each, at) => (limit[at] as number) / each)])
      }
      await child.stop()
    }
    for (const [reader, all] of ratios) {
      const row = rows.get(reader) ?? [reader, ...ARRAY_KINDS.map(() => '–')]
      row[column + 1] = spread(all).median.toFixed(2)
      rows.set(reader, row)
    }
  }
  return table(['CPU of the first row over that of each', ...ARRAY_KINDS], [...rows.values()])
}

async function handlers(): Promise<string> {
  const scenario = (name: string, count: number, batch: number, warmUp: number, connections: number, query: string): Scenario => {
    const body = usersText(count)
    const request = [
      `POST /users/bulk${query} HTTP/1.1`, 'Host: 127.0.0.1', 'Accept: */*', 'Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`, '', body,
    ].join('\r\n')
    return { name, batch, warmUp, connections, prepare: async () => ({ requests: [request], expectStatus: 201 }) }
  }
  const scenarios = [
    // Warms up until V8 has compiled the code, which is not measured.
    scenario('10 items', 10, quick ? 1200 : 3000, quick ? 3000 : 10_000, 16, ''),
    scenario('1,000 items', 1000, 40, quick ? 100 : 400, 1, ''),
    scenario('100,000 items, only=failed', 100_000, 2, 2, 1, '?only=failed'),
  ]
  const rows = await compare({
    servers: Object.fromEntries(names.map((name) => [name, program(name)])), load: program('load'),
    scenarios, starts, rounds, connections: 1, onProgress: (text) => process.stderr.write(`handlers: ${text}\n`),
  })
  const cell = ({ ratio, micros }: Row): string[] => [
    `${ratio.median.toFixed(2)} (${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)})`, micros.median < 1000 ? `${micros.median.toFixed(0)} µs` : `${(micros.median / 1000).toFixed(2)} ms`,
  ]
  return table(
    ['bulk create', ...scenarios.flatMap(({ name }) => [name, 'CPU'])],
    names.map((name) => [name, ...rows.filter(({ server }) => server === name).flatMap(cell)]),
  )
}

/** Sends uploads of several sizes, each to a fresh process with a small heap. */
async function memory(): Promise<string> {
  const rows: string[][] = []
  for (const count of quick ? [10_000, 100_000] : [10_000, 100_000, 1_000_000]) {
    process.stderr.write(`memory: ${count} items\n`)
    const [child, { port }] = await Program.start<{ port: number }>(program('longhaul'), SERVER_CORE, {
      node: ['--max-old-space-size=64', '--max-semi-space-size=4'],
    })
    const { status, seconds } = await uploadUsers(port, '/users/bulk?only=failed', count)
    const { maxRss } = await child.ask<{ maxRss: number }>('memory')
    await child.stop()
    rows.push([count.toLocaleString('en'), String(status), `${seconds.toFixed(1)} s`, `${Math.round(maxRss / 2 ** 20)} MiB`])
  }
  return table(['items, heap of 64 MiB', 'status', 'time', 'peak memory of the process'], rows)
}

/** Returns the CPU time of bulk creates of 10,000 items relative to that of a task that saves one position. */
async function background(): Promise<string> {
  const hows = ['one batch', 'background', 'direct'] satisfies How[]
  const rows: string[][] = []
  const server = await startPostgres()
  for (const engine of ['memory', 'PostgreSQL']) {
    if (engine === 'PostgreSQL') process.env['DATABASE_URL'] = server.url
    const own = new Map<How, number[]>(hows.map((how) => [how, []]))
    const database = new Map<How, number[]>(hows.map((how) => [how, []]))
    for (let start = 1; start <= starts; start++) {
      process.stderr.write(`background, ${engine}: start ${start} of ${starts}\n`)
      const children: [How, Program][] = []
      for (const how of hows) {
        const [child] = await Program.start(program('background'), SERVER_CORE, { args: [how] })
        for (let run = 0; run < 10; run++) await child.ask('run')
        children.push([how, child])
      }
      for (let round = 0; round < rounds; round++) {
        for (const [how, child] of turned(children, round)) {
          const before = server.cpuMicros()
          let micros = 0
          for (let run = 0; run < 4; run++) micros += (await child.ask<{ micros: number }>('run')).micros / 4
          own.get(how)?.push(micros)
          database.get(how)?.push((server.cpuMicros() - before) / 4 / PER_BODY)
        }
      }
      for (const [, child] of children) await child.stop()
    }
    const [base = []] = own.values()
    for (const how of hows) {
      const ratio = spread((own.get(how) ?? []).map((micros, at) => micros / (base[at] as number)))
      rows.push([
        `${engine}, ${how}`, `${spread(own.get(how) ?? []).median.toFixed(2)} µs`,
        `${ratio.median.toFixed(2)} (${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)})`,
        engine === 'memory' ? '' : `${spread(database.get(how) ?? []).median.toFixed(2)} µs`,
      ])
    }
  }
  delete process.env['DATABASE_URL']
  await server.stop()
  return table(['one item of 10,000', 'CPU', 'of one batch', 'CPU of PostgreSQL'], rows)
}
