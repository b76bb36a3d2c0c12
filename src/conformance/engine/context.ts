import assert from 'node:assert/strict'
import type { TaskEngine, TaskQuery } from '../../engine/engine.js'
import type {
  Changed, Created, Expected, NewTask, StoredTask, TaskChange, TaskRef,
} from '../../engine/task.js'
import { Json } from '../../runtime/json.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { eventually, inTime, pause } from '../waiting.js'
import type { EngineConformanceOptions, EngineFixture, EngineProcess } from './fixture.js'
import { Worker, type WorkerOptions } from './worker.js'

/** One hour in milliseconds. */
export const HOUR = 3_600_000

let births = 0

/** The processes of one case. */
export class EngineContext {
  readonly timeoutMs: number
  readonly toleranceMs: number
  private readonly isShared: boolean
  private readonly workers: Worker[] = []

  constructor(
    readonly fixture: EngineFixture,
    /** The process that every case has. */
    readonly first: EngineProcess,
    /** Lease of a run, in milliseconds. */
    readonly leaseMs: number,
    { isShared = true, timeoutMs = 5000, toleranceMs = 50 }: EngineConformanceOptions,
  ) {
    this.isShared = isShared
    this.timeoutMs = timeoutMs
    this.toleranceMs = toleranceMs
  }

  get engine(): TaskEngine {
    return this.first.engine
  }

  /** Delay in milliseconds that a case can distinguish from none. */
  get delayMs(): number {
    return 2 * this.toleranceMs + 50
  }

  /** Starts another process; of an engine that is not shared, returns the first one. */
  async open(): Promise<EngineProcess> {
    return this.isShared ? this.fixture.open() : this.first
  }

  /** Returns a new task: an id, and what differs from the defaults. */
  task({ id, ...others }: Partial<NewTask> & { readonly id: string }): NewTask {
    return {
      id,
      birth: newBirth(),
      name: 'report',
      pool: 'default',
      priority: 0,
      input: Json.of({ id }),
      details: { made: id },
      keepMs: HOUR,
      ...others,
    }
  }

  /** Creates a task, which must succeed. */
  async created(
    task: Partial<NewTask> & { readonly id: string }, engine = this.engine,
  ): Promise<StoredTask> {
    const created = await this.soon(engine.create(this.task(task)), 'create resolves')
    assert.equal(created.outcome, 'created')
    return taskOf(created)
  }

  /** Makes a change, which must succeed. */
  async changed(
    ref: TaskRef, expected: Expected, change: TaskChange, engine = this.engine,
  ): Promise<StoredTask> {
    const changed = await this.soon(engine.change(ref, expected, change), 'change resolves')
    assert.equal(changed.outcome, 'changed')
    return taskOf(changed)
  }

  /** Makes a change, which must be a conflict. Returns the task as it is. */
  async conflict(
    ref: TaskRef, expected: Expected, change: TaskChange, engine = this.engine,
  ): Promise<StoredTask | undefined> {
    const changed = await this.soon(engine.change(ref, expected, change), 'change resolves')
    assert.equal(changed.outcome, 'conflict')
    return changed.outcome === 'conflict' ? changed.task : undefined
  }

  /** Reads a task, which must be there. */
  async stored(id: string, engine = this.engine): Promise<StoredTask> {
    const task = await this.soon(engine.read(id), 'read resolves')
    assert.ok(task, `the task ${id} is gone`)
    return task
  }

  /** Reads a page. */
  async listed(query: Partial<TaskQuery> = {}, engine = this.engine): Promise<readonly StoredTask[]> {
    const page = engine.list({ of: 'all', order: 'oldest', limit: 1000, ...query })
    return this.soon(page, 'list resolves')
  }

  /** Returns the ids of a page. */
  async ids(query: Partial<TaskQuery> = {}, engine = this.engine): Promise<string[]> {
    return (await this.listed(query, engine)).map(({ id }) => id)
  }

  /** Returns the statuses of all tasks, by id. */
  async statuses(engine = this.engine): Promise<Record<string, string>> {
    const tasks = await this.listed({}, engine)
    return Object.fromEntries(tasks.map(({ id, status }) => [id, status]))
  }

  /** Begins to work with a process, and records what it is handed. */
  work(process: Pick<EngineProcess, 'engine'>, options: WorkerOptions = {}): Worker {
    const worker = new Worker(process.engine, options, this.timeoutMs)
    this.workers.push(worker)
    return worker
  }

  /** Makes a task that is processing: `worker` runs it until its `end` is called. */
  eventually(check: () => boolean | Promise<boolean>, what: string): Promise<void> {
    return eventually(check, this.timeoutMs, what)
  }

  /** Returns the outcome of a call. Fails with `what` if it comes too late. */
  soon<T>(outcome: MaybePromise<T>, what: string): Promise<T> {
    return inTime(outcome, this.timeoutMs, what)
  }

  /** Waits until a task has a status. */
  async reaches(id: string, status: StoredTask['status'], engine = this.engine): Promise<StoredTask> {
    let found: StoredTask | undefined
    await this.eventually(async () => {
      found = await engine.read(id)
      return found?.status === status
    }, `${id} is ${status}`)
    return found as StoredTask
  }

  /** Waits until the clock of the engine is past a time. */
  async past(time: number): Promise<void> {
    await this.eventually(async () => await this.engine.now() > time, 'the time comes')
  }

  /** Waits as long as an unexpected event would take. */
  quiet(): Promise<void> {
    return pause(this.toleranceMs)
  }

  async end(): Promise<void> {
    await this.fixture.close()
    const [error] = this.workers.flatMap(({ errors }) => errors)
    if (error !== undefined) throw error as Error
  }
}

/** Returns a random string that no other task has. */
export function newBirth(): string {
  return `${String(++births)}-${Math.random().toString(36).slice(2)}`
}

/** Returns the task of an outcome that has one. */
export function taskOf(outcome: Created | Changed): StoredTask {
  assert.ok('task' in outcome && outcome.task, `the outcome ${outcome.outcome} has no task`)
  return outcome.task
}
