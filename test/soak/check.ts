import { setTimeout as sleep } from 'node:timers/promises'
import { groupBy, ofKind, type HistoryEvent } from './history.js'
import type { Ledger, Promised } from './ledger.js'
import type { Receiver } from './receiver.js'
import type { Site } from './site.js'
import { MAX_CRASHES, MOST_RUNS, type Vitals } from './terms.js'

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
    for (const [at, { status, result, error, callback, finishedAt }] of faces.entries()) {
      ledger.see(task, status, result)
      if (finishedAt !== undefined) task.finishedMs = Date.parse(finishedAt)
      // Allowed if that many of its runs were lost, which `checkRuns` sees.
      task.isLost = error?.code === 'task_lost'
      if (task.isLost) continue
      if (status !== wanted(task) && !(status === 'cancelled' && task.cancelAsked)) {
        ledger.fault(
          `a task (${task.mode}) ended ${status}, ${error?.code ?? 'no code'}${at === 0 ? '' : ' at the other'}`,
          task.id,
        )
      }
      if (task.hook !== undefined && callback !== 'delivered')
        ledger.fault(`the callback of a task that ended is ${String(callback)}`, task.id)
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
  readonly createdAt?: string
  readonly finishedAt?: string
  readonly callback: string | undefined
}

/** The task once it and its callback are through; or as it is when the time is over. */
export async function face(
  url: string,
  { path, owner }: Pick<Promised, 'path' | 'owner'>,
  end: number,
): Promise<Shown> {
  for (;;) {
    const answer = await fetch(url + path, { headers: { 'prefer': 'wait=2', 'x-owner': owner } })
    const body = (await answer.json()) as Partial<Omit<Shown, 'callback'>> & {
      readonly state?: string
      readonly callback?: { readonly state: string }
    }
    const { status = body.state ?? String(answer.status), callback } = body
    const over = ['completed', 'failed', 'cancelled', '404'].includes(status) && callback?.state !== 'pending'
    if (over || performance.now() > end) return { ...body, status, callback: callback?.state }
    await sleep(100)
  }
}

/**
 * No task began more often than docs/guarantees.md says, and none that was completed never began.
 * Gives how many began how often.
 */
export function checkRuns(events: readonly HistoryEvent[], ledger: Ledger): Map<number, number> {
  const spread = new Map<number, number>()
  const begins = groupBy(ofKind(events, 'begin'), ({ task }) => task)
  for (const [id, { length, 0: first }] of begins) {
    spread.set(length, (spread.get(length) ?? 0) + 1)
    // A run that has saved a checkpoint begins a new count.
    if (length > MOST_RUNS && first?.name === 'work') ledger.fault(`a task was begun ${String(length)} times`, id)
    const task = ledger.promised.get(id)
    if (task?.mode === 'fails' && task.final?.startsWith('completed'))
      ledger.fault('a task that only fails is completed', id)
  }
  for (const { id, final, isLost } of ledger.promised.values()) {
    const { length: runs } = begins.get(id) ?? []
    if (isLost === true && runs < MAX_CRASHES) ledger.fault(`a task is lost after ${String(runs)} runs`, id)
    if (final?.startsWith('completed') && runs === 0) ledger.fault('a completed task was never begun', id)
  }
  return spread
}

/** What a process holds once all is quiet, beside what it held before. */
export function checkLeaks(before: Vitals, now: Vitals, ledger: Ledger): void {
  const grown = (what: string, from: number, to: number, most: number): void => {
    if (to - from > most) ledger.fault(`${what} grew from ${String(from)} to ${String(to)}`)
  }
  grown('descriptors', before.descriptors, now.descriptors, 6)
  for (const [kind, count] of Object.entries(now.resources)) grown(kind, before.resources[kind] ?? 0, count, 8)
  grown('the heap (MiB)', Math.round(before.heapUsed / MIB), Math.round(now.heapUsed / MIB), 30)
  grown('RSS (MiB)', Math.round(before.rss / MIB), Math.round(now.rss / MIB), 200)
  if (now.delayMs.p99 > 500)
    ledger.fault(`one event loop turn in a hundred was ${String(Math.round(now.delayMs.p99))} ms late`)
}
