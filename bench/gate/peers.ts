// npm run bench:instructions [-- 20 24] [-- --warm-up 50000]: instructions of an accept and of a poll through a socket, beside
// the same by hand, on each version of Node. V8 of Node 26 compiles an accept to the end after some 40,000 requests.
import { parseArgs } from 'node:util'
import { instructionsFor } from '../frame/instructions.js'
import { buildPrograms } from '../frame/build.js'
import { nodeBinary } from '../frame/node-binary.js'
import { table } from '../frame/table.js'
import { SOCKET_JOBS } from './servers.js'

const VERSIONS = ['v20.20.2', 'v22.23.3', 'v24.22.3', 'v26.12.1']
const BY_HAND = 'Fastify by hand'
/** longhaul has the default of every option. The others are as short as their documentation shows. */
const SERVERS: Readonly<Record<string, string>> = {
  'bare node:http': 'bench/tasks/servers/bare.ts',
  'node:http and a Map by hand': 'bench/tasks/servers/hand-written.ts',
  [BY_HAND]: 'bench/tasks/servers/fastify.ts',
  'longhaul': 'bench/gate/servers/node.ts',
}
const JOBS = ['accept', 'poll'] as const

const { values, positionals: wanted } = parseArgs({ options: { 'warm-up': { type: 'string' } }, allowPositionals: true })
const warmUp = values['warm-up'] === undefined ? {} : { warmUp: Number(values['warm-up']) }
const versions = VERSIONS.filter((version) => wanted.length === 0 || wanted.some((major) => version.startsWith(`v${major}.`)))
const program = await buildPrograms('gate-peers', Object.fromEntries(Object.entries(SERVERS).map(([name, file]) => [name.replaceAll(/\W/g, '-'), file])))
const rows: string[][] = []
for (const version of versions) {
  for (const job of JOBS) {
    const counts = new Map<string, number>()
    for (const name of Object.keys(SERVERS)) {
      const { prepare } = SOCKET_JOBS[job] as (typeof SOCKET_JOBS)[string]
      const node = nodeBinary(version)
      counts.set(name, await instructionsFor({ node, file: program(name.replaceAll(/\W/g, '-')), load: program('load'), prepare, ...warmUp }))
      process.stderr.write(`${version} ${job} ${name}: ${Math.round(counts.get(name) ?? 0)}\n`)
    }
    const byHand = counts.get(BY_HAND) ?? 0
    rows.push([`${job} ${version}`, ...[...counts.values()].map((count) => Math.round(count).toLocaleString('en')), ((counts.get('longhaul') ?? 0) / byHand).toFixed(2)])
  }
}
console.log(table(['instructions in user mode', ...Object.keys(SERVERS), `longhaul / ${BY_HAND}`], rows))
