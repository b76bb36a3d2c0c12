// npm run bench:ndjson [-- --quick]: NDJSON in and out, beside the peers.
import { parseArgs } from 'node:util'
import { buildPrograms } from '../frame/build.js'
import { Program, SERVER_CORE } from '../frame/program.js'
import { spread } from '../frame/stats.js'
import { table } from '../frame/table.js'
import { versionsOf } from '../frame/versions.js'
import { turned } from '../frame/turn.js'
import { READ_KINDS, WRITE_KINDS } from './data.js'
import { NO_BAD_LINES, READERS } from './readers.js'
import { writers } from './writers.js'

const { values: { quick, only } } = parseArgs({ options: { quick: { type: 'boolean', default: false }, only: { type: 'string', default: '' } } })
const starts = quick ? 1 : 3
const rounds = quick ? 2 : 5
/** Rounds that are not measured, in which V8 compiles the code and the heap grows. */
const WARM_UP = 2
/** The slowest subjects, which `--quick` leaves out. */
const SLOW = new Set(['ndjson', "stream-json's JSONL", 'json-ext', 'ndjson.stringify', 'Readable.from(lines).pipe(res)'])
const wanted = (name: string): boolean => name.includes(only) && (!quick || !SLOW.has(name))
const program = await buildPrograms('ndjson', { read: 'bench/ndjson/read-program.ts', write: 'bench/ndjson/write-program.ts' })

/**
 * Returns the CPU time of the first subject divided by that of each. Each subject has its own process and its own garbage. No collection is
 * forced, as in production. They run in a rotating order (A B C, B C A, …), over several starts.
 */
async function measure(name: string, kinds: readonly string[], subjects: (kind: string) => readonly string[]): Promise<string> {
  const cells = new Map<string, string[]>()
  for (const [column, kind] of kinds.entries()) {
    const ratios = new Map<string, number[]>()
    for (let start = 0; start < starts; start++) {
      process.stderr.write(`${name}, ${kind}: start ${start + 1} of ${starts}\n`)
      const children = new Map<string, Program>()
      for (const subject of subjects(kind)) children.set(subject, (await Program.start(program(name), SERVER_CORE, { args: [kind, subject] }))[0])
      for (let round = -WARM_UP; round < rounds; round++) {
        const micros = new Map<string, number>()
        for (const [subject, child] of turned([...children], start + round + WARM_UP)) micros.set(subject, (await child.ask<{ micros: number }>('once')).micros)
        if (round < 0) continue
        const limit = micros.get(subjects(kind)[0] as string) as number
        for (const subject of children.keys()) ratios.set(subject, [...ratios.get(subject) ?? [], limit / (micros.get(subject) as number)])
      }
      for (const child of children.values()) await child.stop()
    }
    for (const [subject, all] of ratios) {
      const row = cells.get(subject) ?? [subject, ...kinds.map(() => '–')]
      const { median, low, high } = spread(all)
      row[column + 1] = `${median.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`
      cells.set(subject, row)
    }
  }
  return table([name === 'read' ? 'NDJSON in' : 'NDJSON out', ...kinds], [...cells.values()])
}

const read = await measure('read', READ_KINDS, (kind) => Object.keys(READERS).filter((name) => wanted(name) && (kind !== '1 % malformed' || !NO_BAD_LINES.has(name))))
const write = await measure('write', WRITE_KINDS, (kind) => Object.keys(writers(kind, [])).filter(wanted))
console.log(`CPU of the first row over that of each, median (quartiles); 64 KiB chunks; ${versionsOf('split2', 'ndjson', 'stream-json', '@discoveryjs/json-ext')}; ${starts} starts of ${rounds} rounds.

${read}

${write}`)
