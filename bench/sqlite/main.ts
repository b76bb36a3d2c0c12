// npm run bench:sqlite [-- --quick]: an accept and its run on SQLite beside memory, and what a sync does to the event loop.
// Needs Node 22.13 or later, and valgrind unless --quick.
import { parseArgs } from 'node:util'
import { buildPrograms } from '../frame/build.js'
import { Load, PINNED, Program, SERVER_CORE, type CpuTime } from '../frame/program.js'
import { spread } from '../frame/stats.js'
import { table } from '../frame/table.js'
import { leastOfWindows } from '../gate/count.js'
import { SOCKET_JOBS } from '../gate/servers.js'
import type { Delays } from './server.js'

const { values: { quick } } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })
const STORAGES = ['memory', 'normal', 'full'] as const
const CONNECTIONS = [8, 64]
const WARM_UP = 20_000
const COUNT = 20_000
const ROUNDS = quick ? 3 : 7

const program = await buildPrograms('sqlite', { server: 'bench/sqlite/server.ts' })
const accept = SOCKET_JOBS['accept']
if (accept === undefined) throw new Error('the gate counts no accept')
const requests = await accept.prepare(() => Promise.resolve([]))

interface Round extends Delays {
  readonly perSecond: number
  readonly perCore: number
}

async function roundsOf(storage: string, connections: number): Promise<Round[]> {
  process.env['STORAGE'] = storage
  const load = await Load.start(program('load'))
  const [server, { port }] = await Program.start<{ port: number }>(program('server'), SERVER_CORE)
  const rounds: Round[] = []
  await load.run({ ...requests, port, connections, count: WARM_UP })
  for (let round = 0; round < ROUNDS; round++) {
    await server.ask('begin')
    const before = await server.ask<CpuTime>('cpu')
    const { seconds } = await load.run({ ...requests, port, connections, count: COUNT })
    const { cpu } = await server.ask<CpuTime>('cpu')
    const delays = await server.ask<Delays>('delays')
    rounds.push({ ...delays, perSecond: COUNT / seconds, perCore: COUNT / (cpu - before.cpu) * 1e6 })
  }
  await server.stop()
  await load.stop()
  return rounds
}

const middle = (values: readonly number[], digits = 0): string => spread(values).median.toFixed(digits)
const rows: string[][] = []
for (const storage of STORAGES) {
  for (const connections of CONNECTIONS) {
    const rounds = await roundsOf(storage, connections)
    const of = (pick: (round: Round) => number, digits?: number): string => middle(rounds.map(pick), digits)
    const pair = (pick: (round: Round) => readonly [number, number]): string => `${of((each) => pick(each)[0], 2)} / ${of((each) => pick(each)[1], 2)}`
    rows.push([
      `${storage}, ${String(connections)} connections`, of((each) => each.perSecond), of((each) => each.perCore),
      storage === 'memory' ? '–' : of((each) => COUNT / each.commits, 1), storage === 'memory' ? '–' : pair((each) => each.commit), pair((each) => each.loop),
    ])
  }
}
console.log(`Tasks that are accepted and run, Node ${process.versions.node}, ${PINNED ? 'one core for the server, another one for the load' : 'not pinned'}. Medians of ${String(ROUNDS)} rounds of ${String(COUNT)}.
Milliseconds are median / 99th percentile. The delay of the loop has a resolution of 1 ms.

${table(['', 'per second', 'per CPU second', 'tasks of a commit', 'COMMIT, ms', 'loop, ms'], rows)}
`)

if (!quick) {
  const counted = (await buildPrograms('sqlite-count', { program: 'bench/gate/program.ts' }))('program')
  const counts: [string, number][] = []
  for (const [storage, job] of [['memory', 'accept-and-run-8'], ['normal', 'accept-and-run-sqlite']] as const) {
    counts.push([storage, await leastOfWindows(counted, job, { warmUp: 8000, counted: 1000, windows: 8 })])
  }
  const [, memory] = counts[0] ?? ['', NaN]
  console.log(table(['instructions of a request and its run, without its socket', '', 'of memory'], counts.map(([storage, count]) => [
    storage, Math.round(count).toLocaleString('en'), (count / memory).toFixed(2),
  ])))
}
