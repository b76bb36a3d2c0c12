// npm run bench:ndjson [-- --quick]: NDJSON in and out, beside the peers.
import { parseArgs } from 'node:util'
import { buildPrograms } from '../frame/build.js'
import { Program, SERVER_CORE } from '../frame/program.js'
import { spread } from '../frame/stats.js'
import { table } from '../frame/table.js'
import { READ_KINDS, WRITE_KINDS } from './data.js'

interface Told { readonly samples: Readonly<Record<string, number[]>>; readonly bytes: number }

const { values: { quick } } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })
const starts = quick ? 1 : 4
const rounds = quick ? 3 : 6
const program = await buildPrograms('ndjson', { read: 'bench/ndjson/read-program.ts', write: 'bench/ndjson/write-program.ts' })

/** Ratios of the first subject's CPU time to each one's, run beside run, over several processes. */
async function measure(name: string, kinds: readonly string[]): Promise<string> {
  const cells = new Map<string, string[]>()
  for (const [column, kind] of kinds.entries()) {
    const ratios = new Map<string, number[]>()
    for (let start = 0; start < starts; start++) {
      process.stderr.write(`${name}, ${kind}: start ${start + 1} of ${starts}\n`)
      const [child] = await Program.start(program(name), SERVER_CORE, { node: ['--expose-gc'], args: [kind, String(rounds)] })
      const { samples } = await child.next<Told>()
      const limit = Object.values(samples)[0] as number[]
      for (const [subject, micros] of Object.entries(samples)) {
        ratios.set(subject, [...ratios.get(subject) ?? [], ...micros.map((each, at) => (limit[at] as number) / each)])
      }
      await child.stop()
    }
    for (const [subject, all] of ratios) {
      const row = cells.get(subject) ?? [subject, ...kinds.map(() => '–')]
      row[column + 1] = spread(all).median.toFixed(2)
      cells.set(subject, row)
    }
  }
  return table([name === 'read' ? 'NDJSON in' : 'NDJSON out', ...kinds], [...cells.values()])
}

const read = await measure('read', READ_KINDS)
const write = await measure('write', WRITE_KINDS)
console.log(`CPU of the first row over that of each, 64 KiB chunks; Node ${process.version}, ${starts} starts, ${rounds} rounds.\n\n${read}\n\n${write}`)
