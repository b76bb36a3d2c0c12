import type { Changed, Expected, TaskChange, TaskRef } from '../../src/engine/task.js'
import { newId } from '../../src/runtime/random-id.js'
import { setImmediate } from '../../src/runtime/timers.js'
import type { ShareLimits } from '../../src/stores/share-limits.js'
import type { Numeric } from './client.js'
import type { Connection } from './connection.js'
import { changeArguments, toTask, type Row, type RunRow } from './rows.js'
import { TURN } from './work-scripts.js'

/** Maximum number and text of the changes of one turn, because Redis does nothing else meanwhile. */
const [MAX_CHANGES, MAX_TEXT] = [50, 1_000_000]

/** Runs to begin in one pool. */
export interface PoolTake {
  readonly name: string
  readonly count: number
  readonly limits: object | undefined
}

/** Runs to begin in a turn, and who gets them. */
export interface Take {
  /** Lease of the runs. */
  readonly lease: string
  readonly leaseMs: number
  readonly pools: readonly PoolTake[]
  readonly settle: (reply: Promise<Begun>) => Promise<void>
}

/** Runs by pool, and 1 for each pool to take from again. */
export interface Begun {
  readonly runs: readonly (readonly RunRow[])[]
  readonly more: readonly unknown[]
}

interface Waiting {
  readonly args: readonly [text: string, checkpoint: string]
  /** Pool of the run of this process that the change ends. */
  readonly pool: string | undefined
  readonly resolve: (outcome: Outcome) => void
  readonly reject: (error: unknown) => void
}

/**
 * Sends the changes of one turn of the event loop together, in one script, which also begins runs in the
 * places that become free by it.
 */
export class Turns {
  /** Called with the time until workers have to look for what is due, in milliseconds. */
  onDue: (ms: number) => void = () => undefined
  /** Returns the pool of a run of this process. */
  poolOf: (lease: string, id: string) => string | undefined = () => undefined
  /** Returns the runs to begin in a turn in which some runs end, by pool. */
  takes: (ending: ReadonlyMap<string, number>) => Take | undefined = () => undefined
  private waiting: Waiting[] = []
  private isWoken = false

  constructor(private readonly connection: Connection, private readonly share: ShareLimits) {}

  /** Makes a turn, even if there is no change. */
  wake(): void {
    if (this.isWoken) return
    this.isWoken = true
    setImmediate(() => {
      this.isWoken = false
      do this.send(this.nextChanges())
      while (this.waiting.length > 0)
    })
  }

  change(ref: TaskRef, expected: Expected, change: TaskChange): Promise<Changed> {
    const args = changeArguments(ref, expected, change, newId())
    const endsRun = change.status !== undefined && 'lease' in expected
    return this.connection.call('change', () => new Promise<Outcome>((resolve, reject) => {
      const pool = endsRun ? this.poolOf(expected.lease, ref.id) : undefined
      this.waiting.push({ args, pool, resolve, reject })
      this.wake()
    }), (outcome) => {
      const [name, row] = outcome
      if (name === 'caller_full') return { outcome: name }
      if (name === 'changed') return { outcome: name, task: toTask(row, change) }
      return { outcome: name, task: row ? toTask(row) : undefined }
    })
  }

  private nextChanges(): readonly Waiting[] {
    let [count, text] = [0, 0]
    for (const { args } of this.waiting) {
      text += args[0].length + args[1].length
      if (count === MAX_CHANGES || (count > 0 && text > MAX_TEXT)) break
      count++
    }
    return this.waiting.splice(0, count)
  }

  private send(changes: readonly Waiting[]): void {
    const ending = new Map<string, number>()
    for (const { pool } of changes) if (pool !== undefined) ending.set(pool, (ending.get(pool) ?? 0) + 1)
    const take = this.takes(ending)
    if (changes.length === 0 && !take) return
    const head = JSON.stringify({
      ...this.share, lease: take?.lease, leaseMs: take?.leaseMs, pools: take?.pools ?? [],
    })
    const reply = this.connection.send<Reply>(TURN, [head, ...changes.flatMap(({ args }) => args)])
    reply.then(([due, outcomes]) => {
      if (due !== null) this.onDue(Math.max(Number(due), 0))
      for (const [n, { resolve, reject }] of changes.entries()) {
        const outcome = outcomes[n] as Outcome | Failure
        if (outcome[0] === 'error') reject(replyError(outcome[1]))
        else resolve(outcome)
      }
    }, (error: unknown) => { for (const { reject } of changes) reject(error) })
    if (take) {
      void take.settle(this.connection.call('take', () => reply, ([, , runs, more]) => ({ runs, more })))
    }
  }
}

type Outcome = readonly ['changed', Row] | readonly ['conflict', Row?] | readonly ['caller_full', null?]
type Failure = readonly ['error', message: string]
type Reply = readonly [
  due: Numeric | null, outcomes: readonly (Outcome | Failure)[], runs: readonly (readonly RunRow[])[],
  more: readonly unknown[],
]

/** Returns an error of Redis within a script as its client reports others. */
function replyError(message: string): Error {
  return Object.assign(new Error(message), { name: 'ReplyError' })
}
