import assert from 'node:assert/strict'
import type { TaskEngine } from '../../src/engine/engine.js'
import { isFinalStatus, type Changed, type StoredTask, type TaskChange } from '../../src/engine/task.js'
import type { Cases } from '../runner.js'
import { pause, together } from '../wait.js'
import { newBirth, type Begun, type EngineContext, type EngineProcess } from './context.js'
import { insist, withFaults, type Fault } from './faults.js'
import { assertWhole, COUNTED } from './whole.js'

const CHAOS_MS = 2500
const CALLERS = ['ann', 'bob', 'cid']
const LIMIT = { ...COUNTED, max: 6 }
const FAULTS: readonly Fault[] = ['lost', 'failed', 'late', 'slow']

/** Returns a function that returns random numbers from 0 up to 1, the same ones for one seed. */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6D2B79F5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Promises that the engine has acknowledged, by id of the task. */
class Promises {
  /** Births by key. */
  readonly keys = new Map<string, string>()
  /** Tasks that were created. */
  readonly created = new Map<string, StoredTask>()
  /** Results of tasks that were completed. */
  readonly results = new Map<string, string>()
  /** Number of the newest run that any worker was handed. */
  readonly newestRun = new Map<string, number>()
  /** Checkpoints that were saved, with their runs. */
  readonly checkpoints = new Map<string, { readonly run: number, readonly line: number }>()
  readonly broken: string[] = []

  check(holds: boolean, what: string): void {
    if (!holds) this.broken.push(what)
  }
}

/** A process that may have died. */
interface Site {
  hasDied: boolean
}

/** Clients and workers of one engine, with faults. */
class Chaos {
  readonly promises = new Promises()
  readonly random: () => number
  /** The faults have ended. */
  isOver = false
  /** The case has ended. */
  hasEnded = false
  private ids = 0

  constructor(private readonly context: EngineContext, readonly seed: number) {
    this.random = randomFrom(seed)
  }

  chance(probability: number): boolean {
    return !this.isOver && this.random() < probability
  }

  lossy(engine: TaskEngine): TaskEngine {
    return withFaults(engine, () => (
      this.chance(0.2) ? FAULTS[Math.floor(this.random() * FAULTS.length)] : undefined
    ))
  }

  /** Creates tasks, cancels some and retries some, until the faults end. */
  async client(engine: TaskEngine): Promise<void> {
    const lossy = this.lossy(engine)
    while (!this.isOver) {
      const caller = CALLERS[Math.floor(this.random() * CALLERS.length)] as string
      const id = `task-${String(++this.ids)}`
      // Some keys are used by several calls.
      const key = `key-${String(this.ids - Number(this.chance(0.2)))}`
      const call = this.context.task({ id, key, owner: caller, caller, limit: LIMIT })
      const created = await insist(() => lossy.create(call), () => this.hasEnded)
      if (created.outcome === 'created' || created.outcome === 'exists') {
        const { task } = created
        const known = this.promises.keys.get(key) ?? task.birth
        this.promises.check(known === task.birth, `two tasks with ${key}`)
        this.promises.keys.set(key, known)
        this.promises.created.set(task.id, task)
        if (this.chance(0.2)) await this.interfere(lossy, task)
      }
      await pause(this.random() * 20)
    }
  }

  /** Works in a process. */
  work({ engine }: EngineProcess): Site {
    const lossy = this.lossy(engine)
    const site: Site = { hasDied: false }
    this.context.work({
      places: { default: 3 },
      callback: async (task) => {
        const sent = { callbackMs: null, details: { sent: task.callbackRun } }
        const expected = isFinalStatus(task.status) ? { callbackRun: task.callbackRun } : { version: task.version }
        await insist(() => lossy.change(task, expected, sent), () => site.hasDied || this.hasEnded)
      },
      run: async ({ task, checkpoint = '0' }, begun) => {
        const newest = this.promises.newestRun.get(task.id) ?? 0
        this.promises.check(task.run > newest || newest === 0, `run ${String(task.run)} of ${task.id} after ${String(newest)}`)
        this.promises.newestRun.set(task.id, Math.max(task.run, newest))
        const saved = this.promises.checkpoints.get(task.id)
        this.promises.check(Number(checkpoint) >= (saved?.line ?? 0), `the checkpoint of ${task.id} is lost`)
        await this.perform(begun, Number(checkpoint), site)
      },
    }, { engine: lossy })
    return site
  }

  /** Cancels a task, or retries it if it has failed. */
  private async interfere(engine: TaskEngine, { id }: StoredTask): Promise<void> {
    await pause(this.random() * 50)
    const task = await insist(() => engine.read(id), () => this.hasEnded)
    if (!task || task.status === 'completed') return
    const change: TaskChange = isFinalStatus(task.status)
      ? { status: 'queued', limit: LIMIT, callbackMs: null }
      : { status: 'cancelled', callbackMs: null }
    await insist(() => engine.change(task, { version: task.version }, change), () => this.hasEnded)
  }

  /** Performs a run: saves checkpoints, and ends it in some way. */
  private async perform(begun: Begun, from: number, site: Site): Promise<void> {
    const { task } = begun
    for (let line = from + 1; line <= from + 2; line++) {
      await pause(this.random() * 30)
      const changed = await this.change(begun, site, { checkpoint: String(line), details: { line } })
      if (changed.outcome !== 'changed') return
      this.promises.checkpoints.set(task.id, { run: task.run, line })
    }
    // This worker dies, or hangs until its lease is over.
    if (this.chance(0.1)) return
    if (this.chance(0.05)) await pause(2 * this.context.leaseMs)
    if (this.chance(0.1)) {
      await this.change(begun, site, { status: 'queued', delayMs: 30, isGivenBack: this.chance(0.5) })
      return
    }
    if (this.chance(0.1)) {
      await this.change(begun, site, { status: 'input_required', delayMs: 30, callbackMs: 0 })
      return
    }
    if (this.chance(0.1)) {
      await this.change(begun, site, { status: 'failed', callbackMs: 0 })
      return
    }
    const result = JSON.stringify(newBirth())
    const changed = await this.change(begun, site, { status: 'completed', result, callbackMs: 0 })
    const isOwn = changed.outcome === 'changed'
      || (changed.outcome === 'conflict' && changed.task?.result === result)
    if (!isOwn) return
    this.promises.check(!this.promises.results.has(task.id), `${task.id} is completed twice`)
    this.promises.results.set(task.id, result)
  }

  /** Makes a change for a run, which must be a conflict if a later run had begun before. */
  private async change(begun: Begun, site: Site, change: TaskChange): Promise<Changed> {
    return insist(async () => {
      const { id, run } = begun.task
      const isReplaced = (this.promises.newestRun.get(id) ?? 0) > run
      const changed = await begun.change(change)
      this.promises.check(!isReplaced || changed.outcome === 'conflict', `run ${String(run)} of ${id} wrote after a later one`)
      return changed
    }, () => site.hasDied || this.hasEnded)
  }
}

/** Kills or cuts off a process now and then, and starts another one. */
async function disturb(context: EngineContext, chaos: Chaos): Promise<void> {
  while (!chaos.isOver) {
    const process = await context.fixture.open()
    const site = chaos.work(process)
    await pause(100 + chaos.random() * 400)
    if (chaos.chance(0.5)) {
      await process.freeze?.()
      await pause(1.5 * context.leaseMs)
      await process.thaw?.()
      await pause(100)
    }
    site.hasDied = true
    await process.kill?.()
  }
}

/** Randomised tests. */
export const randomCases: Cases<EngineContext> = {
  'every acknowledged task ends once with lost responses, delays and crashes, and nothing is left': async (context) => {
    const chaos = new Chaos(context, Math.floor(Math.random() * 1e9))
    try {
      await survives(context, chaos)
    } finally {
      chaos.isOver = true
      chaos.hasEnded = true
    }
  },
}

async function survives(context: EngineContext, chaos: Chaos): Promise<void> {
  const { promises, seed } = chaos
  const second = await context.open()
  for (const process of new Set([context.first, second])) chaos.work(process)
  const isShared = second !== context.first
  const clients = together(3, (n) => chaos.client(n === 0 ? second.engine : context.engine))
  // If the case fails before, the clients end with an error that nobody waits for.
  clients.catch(() => undefined)
  const disturbed = isShared ? disturb(context, chaos) : undefined
  const what = (message: string): string => `${message} (seed ${String(seed)})`
  await pause(CHAOS_MS)
  // On a busy machine, ten tasks take longer.
  await context.eventually(() => promises.results.size >= 10, what('tasks are completed'))
  chaos.isOver = true
  await Promise.all([clients, disturbed])
  const unfinished = { statuses: ['scheduled', 'queued', 'processing', 'input_required'] } as const
  await context.eventually(async () => (await context.ids(unfinished)).length === 0, what('all tasks end'))
  // The callback of a process that died is sent again after a minute.
  await context.eventually(async () => {
    const now = await context.engine.now()
    const pending = (await context.listed()).filter(({ callbackAt }) => callbackAt !== undefined)
    return pending.every(({ callbackAt = 0 }) => isShared && callbackAt > now && callbackAt <= now + 60_000)
  }, what('callbacks are sent'))
  assert.deepEqual(promises.broken, [], what('promises were broken'))
  const tasks = new Map((await assertWhole(context, second.engine, CALLERS)).map((task) => [task.id, task]))
  for (const [id, { birth }] of promises.created) {
    assert.equal(tasks.get(id)?.birth, birth, what(`the acknowledged task ${id} is gone`))
  }
  for (const [id, result] of promises.results) {
    const task = tasks.get(id)
    assert.deepEqual([task?.status, task?.result], ['completed', result], what(`the end of ${id} was overwritten`))
  }
  const { oldestWaitingMs, ...counts } = await context.engine.counts('default')
  assert.deepEqual([counts, oldestWaitingMs], [{ running: 0, waiting: 0, delayed: 0 }, undefined])
}
