import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import pg from 'pg'
import type { Ledger, Promised } from './ledger.js'
import type { Receiver } from './receiver.js'
import type { Site } from './site.js'
import { MAX_CRASHES, MOST_RUNS, ownerOf, type Vitals } from './terms.js'

const MIB = 1_048_576
/** How long one task may not be shown, in milliseconds. */
const OUTAGE_MS = 15_000

/** Waits until all that was promised has come to its end, asks all web processes, and holds it against the ledger. */
export async function settle(site: Site, ledger: Ledger, receiver: Receiver, ms: number): Promise<void> {
  const end = performance.now() + ms
  for (const task of ledger.promised.values()) {
    // The engine in memory has outages until the end, and there may be many tasks.
    const until = Math.max(end, performance.now() + OUTAGE_MS)
    const faces = await Promise.all(site.webs.map(({ url }) => face(url, task, until)))
    for (const [at, { status, result, error, callback }] of faces.entries()) {
      ledger.see(task, status, result)
      // Allowed if that many of its runs were lost, which `checkRuns` sees.
      task.isLost = error?.code === 'task_lost'
      if (task.isLost) continue
      if (status !== wanted(task) && !(status === 'cancelled' && task.cancelAsked)) {
        ledger.fault(`a task (${task.mode}) ended ${status}, ${error?.code ?? 'no code'}${at === 0 ? '' : ' at the other'}`, task.id)
      }
      if (task.hook !== undefined && callback !== 'delivered') ledger.fault(`the callback of a task that ended is ${String(callback)}`, task.id)
    }
    if (task.hook !== undefined && !receiver.heard.has(task.hook)) ledger.fault('a callback that nobody heard', task.id)
  }
  const records = site.records()
  for (const id of ledger.records) if (!records.has(id)) ledger.fault('a record that was acknowledged is not there')
}

function wanted({ mode }: Promised): string {
  return mode === 'fails' ? 'failed' : 'completed'
}

interface Shown {
  readonly status: string
  readonly result?: unknown
  readonly error?: { readonly code: string }
  readonly callback: string | undefined
}

/** The task once it and its callback are through; or as it is when the time is over. */
async function face(url: string, { path, n }: Promised, end: number): Promise<Shown> {
  for (;;) {
    const answer = await fetch(url + path, { headers: { prefer: 'wait=2', ...ownerOf(n) } })
    const body = await answer.json() as Partial<Omit<Shown, 'callback'>> & { readonly state?: string, readonly callback?: { readonly state: string } }
    const { status = body.state ?? String(answer.status), callback } = body
    const over = ['completed', 'failed', 'cancelled', '404'].includes(status) && callback?.state !== 'pending'
    if (over || performance.now() > end) return { ...body, status, callback: callback?.state }
    await sleep(100)
  }
}

/** No task began more often than docs/guarantees.md says, and none that was completed never began. Gives how many began how often. */
export function checkRuns(site: Site, ledger: Ledger): Map<number, number> {
  const byTask = site.runs()
  const spread = new Map<number, number>()
  for (const [id, runs] of byTask) {
    spread.set(runs, (spread.get(runs) ?? 0) + 1)
    if (runs > MOST_RUNS) ledger.fault(`a task was begun ${String(runs)} times`, id)
    const task = ledger.promised.get(id)
    if (task?.mode === 'fails' && task.final?.startsWith('completed')) ledger.fault('a task that only fails is completed', id)
  }
  for (const { id, final, isLost } of ledger.promised.values()) {
    const runs = byTask.get(id) ?? 0
    if (isLost === true && runs < MAX_CRASHES) ledger.fault(`a task is lost after ${String(runs)} runs`, id)
    if (final?.startsWith('completed') && !byTask.has(id)) ledger.fault('a completed task was never begun', id)
  }
  return spread
}

interface Left {
  /** How many there are of each kind. */
  readonly counts: Readonly<Record<string, number>>
  /** What should not be there. */
  readonly wrong: readonly string[]
}

/**
 * What is left on the server: one row or hash for each task, and nothing of any run or job. A task whose submission got no response
 * may take a while until it has ended.
 */
export async function checkLeft(url: string, ledger: Ledger, ms: number): Promise<Left['counts']> {
  const end = performance.now() + ms
  for (;;) {
    const { counts, wrong } = await (url.startsWith('postgres') ? rowsOf(url) : keysOf(url))
    if (wrong.length > 0 && performance.now() < end) {
      await sleep(1000)
      continue
    }
    for (const what of wrong) ledger.fault(what)
    const { tasks = 0 } = counts
    const { promised: { size }, unsure } = ledger
    if (tasks < size || tasks > size + unsure) ledger.fault(`${String(tasks)} tasks are stored of ${String(size)}`)
    return counts
  }
}

async function rowsOf(url: string): Promise<Left> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows: [row] } = await client.query<Record<string, number>>(`select count(*)::int as tasks, count(*) filter (where status < 2)::int as unfinished,
      count(*) filter (where callback_at is not null)::int as callbacks, count(*) filter (where lease_until is not null)::int as leases,
      (select count(*) from longhaul.entries)::int as entries from longhaul.task_rows`)
    const counts = row ?? {}
    const wrong = ['unfinished', 'callbacks', 'leases'].filter((kind) => counts[kind] !== 0)
    return { counts, wrong: wrong.map((kind) => `${String(counts[kind])} rows with ${kind}`) }
  } finally {
    await client.end()
  }
}

async function keysOf(url: string): Promise<Left> {
  const redis = new Redis(url)
  const counts: Record<string, number> = {}
  const wrong: string[] = []
  try {
    for await (const keys of redis.scanStream({ count: 1000 }) as AsyncIterable<string[]>) {
      for (const key of keys) {
        const kind = kindOf(key)
        counts[kind] = (counts[kind] ?? 0) + 1
        if (kind.startsWith('e:') && await redis.pttl(key) < 0) wrong.push(`a ${kind} that never expires`)
        if (kind === 'other') wrong.push(`a key that nobody expects: ${key}`)
        if (UNFINISHED.test(kind.slice('task '.length))) wrong.push(`a key of unfinished tasks: ${key}`)
      }
    }
    const { 'task h': tasks = 0, ...others } = counts
    const keyed = await redis.hlen('{longhaul}:engine:keys')
    if (keyed > tasks) wrong.push(`${String(keyed)} keys of ${String(tasks)} tasks`)
    const expiring = await redis.zcount('{longhaul}:engine:exp', '-inf', '(+inf')
    if (expiring !== tasks) wrong.push(`${String(expiring)} of ${String(tasks)} tasks expire`)
    return { counts: { tasks, ...others }, wrong }
  } finally {
    redis.disconnect()
  }
}

/** Keys of the engine that have a task only while it is not final, or has a callback to send. */
const UNFINISHED = /^(?:ready|q|run|delayed|held|unique|cb|gone|n)$/

/** What a process holds once all is quiet, beside what it held before. */
export function checkLeaks(before: Vitals, now: Vitals, ledger: Ledger): void {
  const grown = (what: string, from: number, to: number, most: number): void => {
    if (to - from > most) ledger.fault(`${what} grew from ${String(from)} to ${String(to)}`)
  }
  grown('descriptors', before.descriptors, now.descriptors, 6)
  for (const [kind, count] of Object.entries(now.resources)) grown(kind, before.resources[kind] ?? 0, count, 8)
  grown('the heap (MiB)', Math.round(before.heapUsed / MIB), Math.round(now.heapUsed / MIB), 30)
  grown('RSS (MiB)', Math.round(before.rss / MIB), Math.round(now.rss / MIB), 200)
  if (now.delayMs.p99 > 500) ledger.fault(`one event loop turn in a hundred was ${String(Math.round(now.delayMs.p99))} ms late`)
}

/** The kind of a key: of the store, or of the engine. */
function kindOf(key: string): string {
  const task = /^\{longhaul\}:engine:(\w+)/.exec(key)?.[1]
  if (task !== undefined) return `task ${task}`
  return /^longhaul:(\w+:\w+)(?::|$)/.exec(key)?.[1] ?? 'other'
}
