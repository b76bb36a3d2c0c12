import { cpus, totalmem } from 'node:os'
import type { SoakReport } from './soak.js'
import { LIMITED_PER_OWNER, LIMITS, MOST_RUNS, type Vitals } from './terms.js'

const mib = (bytes: number): string => `${(bytes / 1_048_576).toFixed(0)} MiB`
const ms = (time: number): string => `${time.toFixed(0)} ms`
const row = (cells: readonly (string | number)[]): string => `| ${cells.join(' | ')} |\n`

function list(counts: Iterable<readonly [string | number, number]>): string {
  return [...counts].map(([what, count]) => `${String(what)} ${String(count)}`).join(', ')
}

function countsOf(names: Iterable<string>): Map<string, number> {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return counts
}

/** The report of one engine. docs/soak.md has its first table. */
export function toMarkdown(report: SoakReport): string {
  const { engine, seconds, seed, perSecond, broken, ledger } = report
  const minutes = (seconds / 60).toFixed(seconds % 60 === 0 ? 0 : 1)
  const options = `--engine ${engine} --minutes ${minutes} --per-second ${String(perSecond)} --seed ${String(seed)}`
  const machine = `Node ${process.versions.node}, ${String(cpus().length)} cores, ${(totalmem() / 2 ** 30).toFixed(0)} GiB`
  const statuses = [...ledger.statuses].sort(([one], [other]) => (one < other ? -1 : 1))
  return `## ${engine}

\`npm run test:soak -- ${options}\`, ${new Date().toISOString().slice(0, 10)}, ${machine}.

**${broken.length === 0 ? 'Nothing was broken.' : `Broken: ${broken.join('; ')}.`}**

| | |
| --- | --- |
${rowsOf(report).map(row).join('')}
Responses: ${list(statuses)}. (\`none\`: no response; \`cut\`: one that broke off.)

${vitalsOf(report)}`
}

function rowsOf(report: SoakReport): readonly (readonly [string, string | number])[] {
  const { ledger, faults, runs, history, lost, left, callbacks } = report
  const { peaks: { running, ofOwner, ofOwnerAndName, starts } } = history
  const finals = [...ledger.promised.values()].map(({ final = 'unknown' }) => final.split(' ')[0] ?? '')
  const byRuns = [...runs].sort(([one], [other]) => one - other)
  const most = (events: readonly object[], limit: number): string => (
    `${String(events.length)} of ${String(limit)}`
  )
  return [
    ['acknowledged tasks', ledger.promised.size],
    ['their ends', list(countsOf(finals))],
    [
      `tasks with so many runs (at most ${String(MOST_RUNS)})`,
      list(byRuns.map(([n, count]) => [`${String(n)}:`, count])),
    ],
    ['submissions without a 202, whose task may exist', ledger.unsure],
    ['`Idempotency-Key`s, each with one task', ledger.keys.size],
    ['tasks whose callback arrived', callbacks.heard],
    ['callbacks that arrived again', callbacks.repeated],
    ['runs', history.begins],
    ['changes that runs asked for', history.writes],
    ['changes that were refused, because the run had lost its task', history.refusedWrites],
    ['begins that the server was made to lose', lost.runs],
    ['changes of these runs that were refused', lost.refusedWrites],
    ['runs in the pool with limits', history.limitedBegins],
    ['most runs at the same time', most(running, LIMITS.maxRunning)],
    ['most runs of an owner', most(ofOwner, LIMITS.maxRunningPerOwner)],
    ['most runs of an owner and a definition', most(ofOwnerAndName.get('limited') ?? [], LIMITED_PER_OWNER)],
    ['most begins in a second', most(starts, LIMITS.startsPer.count)],
    ['pauses of the pool', history.pauses],
    ['new owners', history.newcomers],
    ["most tasks of others that began before a new owner's", history.mostOthers],
    ['tasks with a business key', history.keyedTasks],
    ['inputs that were replaced', history.replacements],
    ['faults', list(countsOf(faults.map(({ fault }) => fault)))],
    ['slowest response', `${(ledger.slowestMs / 1000).toFixed(1)} s`],
    ['left on the server', list(Object.entries(left))],
  ]
}

function vitalsOf({ before, after }: SoakReport): string {
  const vital = (name: string, of: (vitals: Vitals) => string | number): string => (
    row([name, ...before.flatMap((vitals, at) => [of(vitals), of(after[at] ?? vitals)])])
  )
  return row(['', ...before.flatMap((_, at) => [`web process ${String(at + 1)}, before`, 'after'])])
    + row(['---', ...before.flatMap(() => ['---', '---'])])
    + vital('RSS', ({ rss }) => mib(rss))
    + vital('heap after a collection', ({ heapUsed }) => mib(heapUsed))
    + vital('descriptors', ({ descriptors }) => descriptors)
    + vital('timers', ({ resources }) => resources['Timeout'] ?? 0)
    + vital('event loop delay, p50', ({ delayMs }) => ms(delayMs.p50))
    + vital('event loop delay, p99', ({ delayMs }) => ms(delayMs.p99))
    + vital('event loop delay, longest', ({ delayMs }) => ms(delayMs.max))
}
