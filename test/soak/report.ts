import { cpus, totalmem } from 'node:os'
import type { HistoryCounts } from './check-history.js'
import type { SoakReport } from './soak.js'
import { LIMITED_PER_OWNER, LIMITS, MOST_RUNS, type Vitals } from './terms.js'

const mib = (bytes: number): string => `${(bytes / 1_048_576).toFixed(0)} MiB`
const row = (...cells: readonly (string | number)[]): string => `| ${cells.join(' | ')} |`

/** The report of one engine, as a part of docs/soak.md. */
export function toMarkdown({ engine, seconds, seed, perSecond, broken, ledger, faults, runs, history, lost, left, callbacks, before, after }: SoakReport): string {
  const counts = new Map<string, number>()
  for (const { fault } of faults) counts.set(fault, (counts.get(fault) ?? 0) + 1)
  const finals = new Map<string, number>()
  for (const { final = 'unknown' } of ledger.promised.values()) {
    const state = final.split(' ')[0] ?? ''
    finals.set(state, (finals.get(state) ?? 0) + 1)
  }
  const list = (map: Iterable<readonly [string | number, number]>): string => [...map].map(([what, count]) => `${String(what)} ${String(count)}`).join(', ')
  const vital = (name: string, of: (vitals: Vitals) => string | number): string => row(name, ...before.flatMap((vitals, at) => [of(vitals), of(after[at] ?? vitals)]))
  return `## ${engine}

\`npm run test:soak -- --engine ${engine} --minutes ${(seconds / 60).toFixed(seconds % 60 === 0 ? 0 : 1)} --per-second ${String(perSecond)} --seed ${String(seed)}\`, ${new Date().toISOString().slice(0, 10)}, Node ${process.versions.node}, ${String(cpus().length)} cores, ${(totalmem() / 2 ** 30).toFixed(0)} GiB.

**${broken.length === 0 ? 'Nothing was broken.' : `Broken: ${broken.join('; ')}.`}**

| what | how often |
|---|---|
${row('tasks that were promised', ledger.promised.size)}
${row('how they ended', list(finals))}
${row('runs begun of one task: tasks', `${list([...runs].sort(([one], [other]) => one - other).map(([times, count]) => [`${String(times)}×:`, count] as const))} (at most ${String(MOST_RUNS)} are documented)`)}
${row('submissions without a 202 whose record may be there', ledger.unsure)}
${row('Idempotency-Keys, one task each', ledger.keys.size)}
${row('tasks whose callback was heard; repeated deliveries', `${String(callbacks.heard)}; ${String(callbacks.repeated)}`)}
${row('runs begun; their changes; of these, refused', `${String(history.begins)}; ${String(history.writes)}; ${String(history.refusedWrites)}`)}
${row('runs begun in the pool with limits; pauses of it', `${String(history.limitedBegins)}; ${String(history.pauses)}`)}
${row('most of them at once, of one owner, of one owner and definition, and begun in a second', peaks(history))}
${row('new owners; most tasks of others that one waited for', `${String(history.newcomers)}; ${String(history.mostOthers)}`)}
${row('tasks with a business key; replaced inputs', `${String(history.keyedTasks)}; ${String(history.replacements)}`)}
${row('begins that the server was made to lose; changes of their runs that were refused', `${String(lost.runs)}; ${String(lost.refusedWrites)}`)}
${row('faults', list(counts))}
${row('slowest answer of any kind, long polls and streams included', `${(ledger.slowestMs / 1000).toFixed(1)} s`)}
${row('left on the server', list(Object.entries(left)))}

Answers: ${list([...ledger.statuses].sort(([one], [other]) => (one < other ? -1 : 1)))}. (\`none\`: no answer; \`cut\`: one that broke off.)

${row('', ...before.flatMap((_, at) => [`web process ${String(at + 1)}, before`, 'after']))}
${row('---', ...before.flatMap(() => ['---', '---']))}
${vital('RSS', ({ rss }) => mib(rss))}
${vital('heap after a collection', ({ heapUsed }) => mib(heapUsed))}
${vital('descriptors', ({ descriptors }) => descriptors)}
${vital('timers', ({ resources }) => resources['Timeout'] ?? 0)}
${vital('event loop delay, p50', ({ delayMs }) => `${delayMs.p50.toFixed(0)} ms`)}
${vital('event loop delay, p99', ({ delayMs }) => `${delayMs.p99.toFixed(0)} ms`)}
${vital('event loop delay, longest', ({ delayMs }) => `${delayMs.max.toFixed(0)} ms`)}
`
}

function peaks({ peaks: { running, ofOwner, ofOwnerAndName, starts } }: HistoryCounts): string {
  const limited = ofOwnerAndName.get('limited') ?? []
  const { maxRunning, maxRunningPerOwner, startsPer } = LIMITS
  const each = (most: readonly object[], limit: number): string => `${String(most.length)} (limit ${String(limit)})`
  return [
    each(running, maxRunning), each(ofOwner, maxRunningPerOwner), each(limited, LIMITED_PER_OWNER),
    each(starts, startsPer.count),
  ].join(', ')
}
