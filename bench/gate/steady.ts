// npm run bench:steady [-- 24]: after how many accepts the instructions of one stay within 20 % of the steady state.
import { buildPrograms } from '../frame/build.js'
import { instructionsOfWindows } from '../frame/instructions.js'
import { nodeBinary } from '../frame/node-binary.js'
import { table } from '../frame/table.js'
import { SOCKET_JOBS } from './servers.js'

const VERSIONS = ['v20.20.2', 'v22.23.3', 'v24.22.3', 'v26.12.1']
const SERVERS: Readonly<Record<string, string>> = { longhaul: 'bench/gate/servers/node.ts', fastify: 'bench/tasks/servers/fastify.ts' }
const SIZE = 1000
const WINDOWS = 50
/** Windows at the end whose median is the steady state. */
const LAST = 10

function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] as number
}

const wanted = process.argv.slice(2)
const program = await buildPrograms('gate-steady', SERVERS)
const { prepare } = SOCKET_JOBS['accept'] as (typeof SOCKET_JOBS)[string]
const rows: string[][] = []
for (const version of VERSIONS.filter((each) => wanted.length === 0 || wanted.some((major) => each.startsWith(`v${major}.`)))) {
  for (const name of Object.keys(SERVERS)) {
    const server = { node: nodeBinary(version), file: program(name), load: program('load'), prepare, warmUp: 0 }
    const counts = await instructionsOfWindows(server, { windows: WINDOWS, size: SIZE })
    const steady = medianOf(counts.slice(-LAST))
    // A full collection makes a window dearer, so the median of five that follow each other counts.
    const first = counts.findIndex((_, at) => medianOf(counts.slice(at, at + 5)) <= 1.2 * steady)
    process.stderr.write(`${name} ${version}: ${counts.map((count) => Math.round(count / 1000)).join(' ')}\n`)
    rows.push([`${name} ${version}`, ...[1, 5, 10, 20, 40].map((at) => Math.round(counts[at - 1] as number).toLocaleString('en')), Math.round(steady).toLocaleString('en'), ((first + 1) * SIZE).toLocaleString('en')])
  }
}
console.log(table(['instructions of an accept', '1st 1,000', '5th', '10th', '20th', '40th', 'steady', 'within 20 % after'], rows))
