import { setTimeout as pause } from 'node:timers/promises'
import type { EngineFixture, EngineSettings } from 'longhaul/conformance'
import type { TaskEngine } from '../../src/engine/engine.js'
import { isFinalStatus, type StoredTask } from '../../src/engine/task.js'
import { StoreUnavailableError } from '../../src/stores/store.js'
import { OwnContext } from '../../src/runtime/own-context.js'
import { ModelEngine } from './model-engine.js'
import { ModelTasks, type Row } from './model-tasks.js'

const HOUR = 3_600_000

/** An engine that is wrong in one way, and the test that has to say so. */
export interface BrokenEngine {
  readonly fault: string
  readonly caughtBy: string
  readonly open: (settings: EngineSettings) => EngineFixture
  /** It is an engine in the memory of one process. */
  readonly isInMemory?: boolean
}

type Rules = (real: ModelTasks) => Partial<ModelTasks>
type Calls = (real: ModelEngine) => Partial<TaskEngine>

function fixture(settings: EngineSettings, rules: Rules, calls: Calls, isDurable: boolean): EngineFixture {
  const real = new ModelTasks(settings)
  const tasks = Object.assign(Object.create(real) as ModelTasks, rules(real))
  const engines: ModelEngine[] = []
  return {
    open: async () => {
      const model = new ModelEngine(tasks, { isDurable })
      engines.push(model)
      const engine = engineLike(model, calls(model))
      const faults = {
        freeze: () => { model.isFrozen = true },
        thaw: () => { model.isFrozen = false },
        kill: () => { model.kill() },
      }
      return { engine, ...isDurable && faults }
    },
    snapshot: async () => real.snapshot(),
    close: () => { for (const engine of engines) engine.kill() },
  }
}

/** Hands every call on, so that one of them can be replaced. */
function engineLike(real: ModelEngine, faults: Partial<TaskEngine>): TaskEngine {
  return {
    shared: real.shared,
    durable: real.durable,
    hasTransactions: real.hasTransactions,
    create: (task) => real.create(task),
    read: (id) => real.read(id),
    readByKey: (key) => real.readByKey(key),
    change: (ref, expected, change) => real.change(ref, expected, change),
    delete: (ref, version) => real.delete(ref, version),
    work: (options, handlers) => real.work(options, handlers),
    watch: (id, listener) => real.watch(id, listener),
    list: (query) => real.list(query),
    counts: (pool) => real.counts(pool),
    setPaused: (pool, isPaused) => real.setPaused(pool, isPaused),
    pausedPools: () => real.pausedPools(),
    now: () => real.now(),
    close: (options) => real.close(options),
    ...faults,
  }
}

/** Opens a model without a fault. */
export function correctEngine(settings: EngineSettings, isDurable = true): EngineFixture {
  return fixture(settings, () => ({}), () => ({}), isDurable)
}

const rules = (fault: string, caughtBy: string, broken: Rules): BrokenEngine => (
  { fault, caughtBy, open: (settings) => fixture(settings, broken, () => ({}), true) }
)

const calls = (fault: string, caughtBy: string, broken: Calls): BrokenEngine => (
  { fault, caughtBy, open: (settings) => fixture(settings, () => ({}), broken, true) }
)

const inMemory = (fault: string, caughtBy: string, broken: Calls): BrokenEngine => (
  { fault, caughtBy, isInMemory: true, open: (settings) => fixture(settings, () => ({}), broken, false) }
)

/** Tampers with each task that a change has written. */
const written = (
  fault: string,
  caughtBy: string,
  tamper: (task: StoredTask, before: StoredTask, row: Row) => Partial<StoredTask> | undefined,
): BrokenEngine => rules(fault, caughtBy, (real) => ({
  change: (ref, expected, change) => {
    const before = real.row(ref.id)?.task
    const changed = real.change(ref, expected, change)
    const row = real.rows.get(ref.id)
    if (changed.outcome !== 'changed' || !row || !before) return changed
    row.task = { ...row.task, ...tamper(changed.task, before, row) }
    return { outcome: 'changed', task: row.task }
  },
}))

/** Tampers with each run that begins. */
const begun = (
  fault: string,
  caughtBy: string,
  tamper: (task: StoredTask, before: StoredTask, row: Row) => Partial<StoredTask> | undefined,
): BrokenEngine =>
  rules(fault, caughtBy, (real) => ({
    take: (pool) => {
      const taken = real.take(pool)
      if (taken) taken.row.task = { ...taken.row.task, ...tamper(taken.row.task, taken.before, taken.row) }
      return taken
    },
  }))

const wasRetried = (task: StoredTask, before: StoredTask): boolean => (
  task.status === 'queued' && isFinalStatus(before.status)
)

/** Calls handlers in the async context of the call that was made last. */
const inContextOfCall =
  (handler: 'run' | 'callback' | 'remove', call: 'create' | 'change' | 'delete') =>
    (real: ModelEngine): Partial<TaskEngine> => {
      let latest = new OwnContext()
      return {
        work: (options, handlers) => {
          const called = handlers[handler] as (argument: unknown) => unknown
          real.work(options, { ...handlers, [handler]: (argument: unknown) => latest.run(called, argument) })
        },
        [call]: (...args: readonly unknown[]) => {
          latest = new OwnContext()
          return (real[call] as (...args: readonly unknown[]) => unknown).apply(real, args as unknown[])
        },
      }
    }

const CONTEXT = 'every handler is called in the async context of work, whatever call made it due'
const KEYS = 'one of many concurrent calls with one id or key creates the task, and all get it'
const OLD = 'a call with an old task never changes a new task with its id'
const LOST_BEGIN = 'a worker whose begin the engine has lost writes nothing once another begin has the same number'
const CONFLICT = 'a change that expects another version or lease is a conflict, returns the task and changes nothing'
const RETRY = 'a final task that is retried runs again, with input, checkpoint and key'
const VERSIONS = 'the version grows with each change that clients can see'
const CRASH = 'a run that does not end its task counts as crashed and runs again when its lease ends, every time'
const LIMIT = 'a caller has at most as many unfinished tasks as its limit, and a task that ends frees its place'
const GROUPS = 'a limit counts only the tasks of its group, and no tasks without a limit'
const RETRIED = 'a retry counts in the group that it names'
const ONCE = 'each task runs once with several workers, and no more tasks run at a time than there are places'
const GIVEN_BACK = 'a run that is given back counts as no attempt, and runs again after its delay'
const SENT = 'the outcome of an attempt ends the callback, or delays the next attempt'
const FILTERS = 'the filters select complete tasks by owner, tenant, status and name'
const DELETE = 'delete removes a task only if it is final and has the expected version'
const FILE_SHARE = 'files have a separate share, and only tasks with files are removed for it'
const SHARE = 'a caller over its share loses its own oldest final tasks, and no others'
const RANDOM = 'every acknowledged task ends once with lost responses, delays and crashes, and nothing is left'

const ASKED = 'a run that asks ends without an attempt, keeps the time of its start, and can write nothing more'
const UNANSWERED = 'a task whose time to answer is over runs again, and has its status until it does'
const ASKING_COUNTS = 'a task that waits for an answer counts as unfinished, and keeps its business key'
const ASKING_CALLBACK = 'a question that waits has a callback, and an answer before its outcome wins'
const asks = ({ status }: StoredTask): boolean => status === 'input_required'

/** Tampers with the row of each task that waits for an answer, after each change. */
const waiting = (fault: string, caughtBy: string, tamper: (row: Row, before: StoredTask) => void): BrokenEngine => (
  rules(fault, caughtBy, (real) => ({
    change: (ref, expected, change) => {
      const before = real.row(ref.id)?.task
      const changed = real.change(ref, expected, change)
      const row = real.rows.get(ref.id)
      if (changed.outcome === 'changed' && row && before && (asks(row.task) || asks(before))) tamper(row, before)
      return changed
    },
  }))
)

export const BROKEN_ENGINES: readonly BrokenEngine[] = [
  // Creation and keys.
  rules(
    'a property gets lost',
    'a created task has all its properties, and every process reads it by id and key',
    (real) => ({
      create: ({ owner: _, ...task }) => real.create(task),
    }),
  ),
  rules('a repetition counts as another task', 'a repeated call gets the current task', (real) => ({
    create: (task) => {
      const same = real.row(task.id)
      return same ? { outcome: 'exists', task: same.task } : real.create(task)
    },
  })),
  rules(
    'an id that is taken is overwritten',
    'an id or a key in use gives `exists`, and nothing is created',
    (real) => ({
      create: (task) => {
        if (real.row(task.id)?.task.birth !== task.birth) real.rows.delete(task.id)
        return real.create(task)
      },
    }),
  ),
  rules('a key is not unique', 'an id or a key in use gives `exists`, and nothing is created', () => ({
    withKey: () => undefined,
  })),
  rules('long owners are cut', 'an owner and a key of 512 characters of any script are kept', (real) => ({
    create: (task) => real.create({ ...task, owner: task.owner?.slice(0, 255) }),
  })),
  calls('names are not checked', 'a name that an engine cannot keep rejects its own call with a TypeError', (real) => ({
    create: async (task) => real.tasks.create(task),
  })),
  calls('a key is looked for before the task is written', KEYS, (real) => ({
    create: async (task) => {
      const existing = task.key === undefined ? undefined : await real.readByKey(task.key)
      if (existing) return { outcome: 'exists', task: existing }
      const { key, ...others } = task
      const created = await real.create(others)
      const row = real.tasks.rows.get(task.id)
      if (row) row.task = { ...row.task, key }
      return created
    },
  })),
  rules('keys are trimmed', 'ids and keys are compared exactly, and no text is special', (real) => ({
    create: (task) => real.create({ ...task, key: task.key?.trim() }),
  })),
  rules('ids are not case-sensitive', 'ids and keys are compared exactly, and no text is special', (real) => ({
    row: (id) => real.live().find(({ task }) => task.id.toLowerCase() === id.toLowerCase()),
  })),
  rules(
    'the key ends with the task that it made',
    'a key is in use as long as its task exists, in any status',
    (real) => ({
      withKey: (key) => {
        const row = real.withKey(key)
        return row && isFinalStatus(row.task.status) ? undefined : row
      },
    }),
  ),
  rules(
    'a task is kept from its creation',
    'the key of a task that starts in 30 days lives as long as the task',
    (real) => ({
      create: (task) => {
        const created = real.create(task)
        const row = real.rows.get(task.id)
        if (row) row.task = { ...row.task, expiresAt: row.task.createdAt + task.keepMs }
        return row && created.outcome === 'created' ? { outcome: 'created', task: row.task } : created
      },
    }),
  ),
  rules('a change is made to any task with the id', OLD, (real) => ({
    change: (ref, expected, change) =>
      real.change({ id: ref.id, birth: real.row(ref.id)?.task.birth ?? '' }, expected, change),
  })),
  rules('any task with the id is deleted', OLD, (real) => ({
    delete: (ref, version) => real.delete({ id: ref.id, birth: real.row(ref.id)?.task.birth ?? '' }, version),
  })),

  // Tasks that ask.
  written('a run that asks counts as an attempt', ASKED, (task, before) =>
    asks(task) ? { attempt: before.attempt } : undefined,
  ),
  rules('a question does not end the lease', ASKED, (real) => ({
    holds: (task, expected) =>
      'lease' in expected && asks(task) ? real.rows.get(task.id)?.lease === expected.lease : real.holds(task, expected),
  })),
  written(
    'a question keeps the number of crashes',
    'a run that asks sets the number of consecutive crashes to 0',
    (task, before) => (asks(task) ? { crashes: before.crashes } : undefined),
  ),
  rules(
    'a task that asks counts as running',
    'a task that waits for an answer holds no place, and counts as delayed',
    (real) => ({
      counts: (pool) => {
        const { running, delayed, ...others } = real.counts(pool)
        return { ...others, running: running + delayed, delayed: 0 }
      },
    }),
  ),
  rules(
    'a task that asks is listed as queued',
    'a task that waits for an answer stands in a list of its own',
    (real) => ({
      list: (query) =>
        real.list({
          ...query,
          statuses: query.statuses?.includes('queued') ? [...query.statuses, 'input_required'] : query.statuses,
        }),
    }),
  ),
  waiting(
    'an answer waits for the time of the question',
    'an answer lets the task run at once, in the same attempt, with its checkpoint',
    (row, before) => {
      if (asks(before)) row.dueAt += HOUR
    },
  ),
  rules('an answer needs no version', 'one of many answers at one version applies', (real) => ({
    holds: (task, expected) =>
      ('version' in expected && task.run > 0 && task.status !== 'processing') || real.holds(task, expected),
  })),
  waiting(
    'a part of an answer starts the time again',
    'a part of an answer keeps the status and the time',
    (row, before) => {
      if (asks(row.task) && asks(before)) row.dueAt += HOUR
    },
  ),
  rules('a task is queued as soon as its time to answer is over', UNANSWERED, (real) => ({
    list: (query) => {
      for (const row of real.live()) {
        if (asks(row.task) && row.dueAt <= real.now()) row.task = { ...row.task, status: 'queued' }
      }
      return real.list(query)
    },
  })),
  waiting('a task without an answer never runs again', UNANSWERED, (row) => {
    row.dueAt = Infinity
  }),
  rules('a task that asks counts for no limit', ASKING_COUNTS, (real) => ({
    isCounted: (row, caller, group) => !asks(row.task) && real.isCounted(row, caller, group),
  })),
  waiting('a task that asks gives up its business key', ASKING_COUNTS, (row) => {
    row.unique = undefined
  }),
  rules('a task that asks is deleted', ASKING_COUNTS, (real) => ({
    delete: (ref, version) => {
      const row = real.row(ref.id)
      if (row && asks(row.task)) real.rows.delete(ref.id)
      return real.delete(ref, version)
    },
  })),
  rules(
    'a task that asks cannot be cancelled',
    'a task that waits for an answer can be cancelled, and then runs no more',
    (real) => ({
      change: (ref, expected, change) => {
        const task = real.row(ref.id)?.task
        return task && asks(task) && change.status === 'cancelled'
          ? { outcome: 'conflict', task }
          : real.change(ref, expected, change)
      },
    }),
  ),
  waiting('a task that asks does not expire', 'a task that nobody answers expires', (row) => {
    row.task = { ...row.task, expiresAt: row.task.expiresAt + HOUR }
  }),
  rules('a question has no callback', ASKING_CALLBACK, (real) => ({
    takeCallback: () => {
      const task = real.takeCallback()
      return task && asks(task) ? undefined : task
    },
  })),
  rules('the outcome of the callback of a question needs no version', ASKING_CALLBACK, (real) => ({
    holds: (task, expected) =>
      'callbackRun' in expected ? task.callbackRun === expected.callbackRun : real.holds(task, expected),
  })),
  waiting(
    'the outcome of the callback of a question ends it',
    'the outcome of the callback of a question keeps the question',
    (row, before) => {
      if (asks(before)) row.task = { ...row.task, status: 'queued' }
    },
  ),
  begun(
    'a begin keeps the callback',
    'a run that begins because the time is over removes the next attempt at the callback',
    (_task, { callbackAt }) => ({ callbackAt }),
  ),

  // Changes and fences.
  rules('versions are not compared', CONFLICT, (real) => ({
    holds: (task, expected) => 'version' in expected || real.holds(task, expected),
  })),
  rules('a conflict does not return the task', CONFLICT, (real) => ({
    change: (ref, expected, change) => {
      const changed = real.change(ref, expected, change)
      return changed.outcome === 'conflict' ? { outcome: 'conflict', task: undefined } : changed
    },
  })),
  calls(
    'a version is compared before the change is made',
    'one of many concurrent changes at one version applies',
    (real) => ({
      change: async (ref, expected, change) => {
        const task = await real.read(ref.id)
        if (!task || !real.tasks.holds(task, expected)) return { outcome: 'conflict', task }
        for (;;) {
          const { version = 0 } = real.tasks.rows.get(ref.id)?.task ?? {}
          const changed = await real.change(ref, { version }, change)
          if (changed.outcome !== 'conflict') return changed
        }
      },
    }),
  ),
  rules(
    'runs are not compared',
    'a run that another process cancels can write nothing, not even after a retry',
    (real) => ({
      holds: (task, expected) => 'lease' in expected || real.holds(task, expected),
    }),
  ),
  rules(
    'checkpoints are not fenced',
    'a suspended worker that resumes after a later run has begun writes nothing, not even a checkpoint',
    (real) => ({
      change: (ref, expected, change) => {
        const row = real.rows.get(ref.id)
        if (row && change.checkpoint !== undefined) row.checkpoint = change.checkpoint ?? undefined
        return real.change(ref, expected, change)
      },
    }),
  ),
  rules(
    'a run has a fence of its status only',
    'a suspended worker that resumes after a later run has begun writes nothing, not even a checkpoint',
    (real) => ({
      holds: (task, expected) => ('lease' in expected ? task.status === 'processing' : real.holds(task, expected)),
    }),
  ),
  written('details are merged', 'a change keeps the properties that it does not name', (task, before) => ({
    details: { ...before.details, ...task.details },
  })),
  written(
    'an end has no time',
    'a change of the status ends a run, with its time, details and result, and the run can write nothing afterwards',
    () => ({ finishedAt: undefined }),
  ),
  written('each change is visible', VERSIONS, (_task, before) => ({ version: before.version + 1 })),
  written('no change is visible', 'a change applies at its version, and every process reads it', (_task, before) => ({
    version: before.version,
  })),
  written('the pool stays', 'a change of the pool takes effect with the next run', (_task, before) => ({
    pool: before.pool,
  })),
  written('keepMs counts from the start', 'keepMs counts from the change', (task) => ({
    expiresAt: (task.startAt ?? 0) + 5000,
  })),
  rules('unfinished tasks are deleted', DELETE, (real) => ({
    delete: (ref) => {
      real.rows.delete(ref.id)
      return undefined
    },
  })),
  rules('a task of any version is deleted', DELETE, (real) => ({
    delete: (ref) => real.delete(ref, real.row(ref.id)?.task.version ?? 0),
  })),

  // Runs.
  begun('a run is no visible change', 'a task runs once, and its run is one visible change', (_task, before) => ({
    version: before.version,
  })),
  rules(
    'inputs that are false get lost',
    'any JSON value is an input, with its text and the order of its properties',
    (real) => ({
      take: (pool) => {
        const taken = real.take(pool)
        if (taken && !taken.row.input?.value) taken.row.input = undefined
        return taken
      },
    }),
  ),
  calls(
    'the number of places is doubled',
    'the runs of a process share its places, and free them when their handlers end',
    (real) => ({
      work: ({ places, callbacks }, handlers) => {
        const more = Object.assign(Object.create(places) as typeof places, {
          tryAcquire: (pool: string) => places.tryAcquire(pool) || places.tryAcquire('more'),
        })
        places.release('more')
        real.work({ places: more, callbacks }, handlers)
      },
    }),
  ),
  calls(
    'a place is freed by the change that ends the run',
    'the runs of a process share its places, and free them when their handlers end',
    (real) => {
      const ended = new Map<string, () => void>()
      return {
        work: (options, handlers) =>
          real.work(options, {
            ...handlers,
            run: (run) =>
              Promise.race([handlers.run(run), new Promise<void>((resolve) => ended.set(run.task.id, resolve))]),
          }),
        change: async (ref, expected, change) => {
          const changed = await real.change(ref, expected, change)
          if (change.status !== undefined) ended.get(ref.id)?.()
          return changed
        },
      }
    },
  ),
  calls(
    'a place is never freed',
    'the runs of a process share its places, and free them when their handlers end',
    (real) => ({
      work: ({ places, callbacks }, handlers) => {
        const kept = Object.assign(Object.create(places) as typeof places, { release: () => undefined })
        real.work({ places: kept, callbacks }, handlers)
      },
    }),
  ),
  calls('runs are handed out twice', ONCE, (real) => ({
    work: (options, handlers) =>
      real.work(options, {
        ...handlers,
        run: async (run) => {
          await Promise.all([handlers.run(run), handlers.run(run)])
        },
      }),
  })),
  rules('pools are ignored', 'a worker takes no tasks of pools that it has no places for', (real) => ({
    take: () => real.take(real.live().find(({ task }) => task.status === 'queued')?.task.pool ?? ''),
  })),
  rules('a delay is ignored', 'a delayed task runs after its delay, and delays no other task', (real) => ({
    take: (pool) => {
      for (const row of real.live()) row.dueAt = 0
      return real.take(pool)
    },
  })),
  rules(
    'a cancelled task runs',
    'a task that is cancelled while it waits, is delayed, or waits for its next run, does not run',
    (real) => ({
      take: (pool) => {
        for (const row of real.live()) if (row.task.status === 'cancelled') row.task = { ...row.task, status: 'queued' }
        return real.take(pool)
      },
    }),
  ),
  rules(
    'a checkpoint is lost with its run',
    'a run that saves a checkpoint has it in its next attempt, until it is removed',
    (real) => ({
      take: (pool) => {
        const taken = real.take(pool)
        if (taken) taken.row.checkpoint = undefined
        return taken
      },
    }),
  ),

  // Async context.
  calls('a run is in the async context of a submission', CONTEXT, inContextOfCall('run', 'create')),
  calls('a callback is in the async context of a change', CONTEXT, inContextOfCall('callback', 'change')),
  calls('a removal is in the async context of a deletion', CONTEXT, inContextOfCall('remove', 'delete')),
  calls(
    'a run is in the async context that the run before has entered',
    'a context that a handler enters ends with its call',
    (real) => {
      let latest = new OwnContext()
      return {
        work: (options, handlers) =>
          real.work(options, {
            ...handlers,
            run: (run) =>
              latest.run(() => {
                const running = handlers.run(run)
                latest = new OwnContext()
                return running
              }),
          }),
      }
    },
  ),

  // Attempts and retries.
  written('a run that is given back counts', GIVEN_BACK, (_task, before) => ({ attempt: before.attempt })),
  rules('the delay of the next run is ignored', 'a task that is queued again runs again after the delay', (real) => ({
    change: (ref, expected, { delayMs: _, ...change }) => real.change(ref, expected, change),
  })),
  written('a retry begins with run 1', RETRY, (task, before) => (wasRetried(task, before) ? { run: 0 } : {})),
  written('a retry keeps the result', RETRY, (task, before) =>
    wasRetried(task, before) ? { result: before.result } : {},
  ),
  rules('a failed task loses its input', RETRY, (real) => ({
    change: (ref, expected, change) => {
      const changed = real.change(ref, expected, change)
      const row = real.rows.get(ref.id)
      if (row && changed.outcome === 'changed' && change.status === 'failed') row.input = undefined
      return changed
    },
  })),
  rules(
    'a completed task is retried',
    'a retry that is repeated makes no second run, and a completed task cannot be retried',
    (real) => ({
      change: (ref, expected, change) => {
        const row = real.rows.get(ref.id)
        if (row?.task.status === 'completed' && change.status === 'queued') row.task = { ...row.task, status: 'failed' }
        return real.change(ref, expected, change)
      },
    }),
  ),
  rules(
    'a retry applies at any version',
    'a retry that is repeated makes no second run, and a completed task cannot be retried',
    (real) => ({
      holds: (task, expected) => real.holds(task, expected) || ('version' in expected && isFinalStatus(task.status)),
      change: (ref, expected, change) => {
        const row = real.rows.get(ref.id)
        if (row?.task.status === 'completed' && change.status === 'queued')
          row.task = { ...row.task, status: 'failed', version: 3 }
        return real.change(ref, change.status === 'queued' ? { version: row?.task.version ?? 0 } : expected, change)
      },
    }),
  ),

  // Leases and crashes.
  begun('a crash counts as nothing', CRASH, (_task, before) => ({ crashes: before.crashes })),
  rules('the lease never ends', CRASH, () => ({ renew: () => true, take: () => undefined })),
  rules('no lease is renewed', 'a run keeps its lease as long as its handler works', (real) => ({
    renew: (task) => real.row(task.id)?.task.run === task.run,
  })),
  written(
    'a checkpoint leaves the crashes',
    'a checkpoint sets the number of consecutive crashes to 0',
    (task, before) => (task.status === 'processing' ? { crashes: before.crashes } : {}),
  ),
  written(
    'crashes are never set to 0',
    'an ordinary end of a run and a retry set the number of consecutive crashes to 0',
    (_task, before) => ({ crashes: before.crashes }),
  ),
  written(
    'a run that is given back takes back the crash before it',
    'a run that is given back counts as no attempt, and the crash before it still counts',
    (task, before) => (task.attempt < before.attempt ? { crashes: 0 } : {}),
  ),
  rules('a lease belongs to an id', 'a suspended worker keeps no lease of a later task with the same id', (real) => ({
    renew: ({ id }) => {
      const row = real.row(id)
      return row !== undefined && real.renew(row.task, row.lease)
    },
  })),
  rules(
    'a task ends after two crashes',
    'a run that does not end its task counts as crashed and runs again when its lease ends, every time',
    (real) => ({
      take: (pool) => {
        for (const row of real.live()) {
          if (row.task.crashes >= 2) row.task = { ...row.task, status: 'failed', finishedAt: real.now() }
        }
        return real.take(pool)
      },
    }),
  ),
  rules(
    'nobody hears that a run was replaced',
    'the signal of a run aborts when another process ends its task',
    () => ({ renew: () => true }),
  ),
  calls(
    'the signal aborts without a reason',
    'the signal of a run aborts when another process ends its task',
    (real) => ({
      work: (options, handlers) =>
        real.work(options, {
          ...handlers,
          run: (run) => {
            const controller = new AbortController()
            run.onAbort(() => controller.abort())
            return handlers.run({ ...run, signal: controller.signal })
          },
        }),
    }),
  ),
  rules(
    'only the process that made a task finds it',
    'a worker that is killed many times completes its task, with each checkpoint once',
    (real) => ({
      take: (pool) => (real.live().every(({ task }) => task.run === 0) ? real.take(pool) : undefined),
    }),
  ),
  rules(
    'leases are renewed for dead workers',
    'a worker that is killed many times completes its task, with each checkpoint once',
    (real) => ({
      take: (pool) => {
        for (const row of real.live()) if (row.task.status === 'processing') row.leaseEndsAt = real.now() + 60_000
        return real.take(pool)
      },
    }),
  ),

  // Callbacks.
  rules(
    'an end makes no callback due',
    'the change that ends a task makes its callback due, and an attempt makes it due again in a minute',
    (real) => ({
      change: (ref, expected, { callbackMs: _, ...change }) => real.change(ref, expected, change),
    }),
  ),
  rules('an attempt has no number', SENT, (real) => ({
    takeCallback: () => {
      const task = real.takeCallback()
      const row = task && real.rows.get(task.id)
      if (row) row.task = { ...row.task, callbackRun: row.task.callbackRun - 1 }
      return row?.task
    },
  })),
  rules(
    'callbacks are not fenced',
    'an attempt changes nothing after a later attempt, a redelivery or a retry has begun',
    (real) => ({
      holds: (task, expected) => 'callbackRun' in expected || real.holds(task, expected),
    }),
  ),
  written(
    'an attempt may end a redelivery',
    'an attempt changes nothing after a later attempt, a redelivery or a retry has begun',
    (_task, before) => ({ callbackRun: before.callbackRun }),
  ),
  rules(
    'a callback is given up when it is handed out',
    'the change that ends a task makes its callback due, and an attempt makes it due again in a minute',
    (real) => ({
      takeCallback: () => {
        const task = real.takeCallback()
        const row = task && real.rows.get(task.id)
        if (row) row.task = { ...row.task, callbackAt: undefined }
        return row?.task
      },
    }),
  ),
  calls(
    'more callbacks are sent than the worker may',
    'a callback is sent once, by any process, and no process exceeds its limit of concurrent callbacks',
    (real) => ({
      work: ({ places, callbacks }, handlers) => real.work({ places, callbacks: callbacks + 1 }, handlers),
    }),
  ),

  // Turns.
  rules(
    'the order is that of creation',
    'tasks start by priority, and within a priority in the order of their creation',
    (real) => ({
      take: (pool) => {
        for (const row of real.live()) row.task = { ...row.task, priority: 0 }
        return real.take(pool)
      },
    }),
  ),
  rules(
    'who comes first is served first',
    'a task of another caller starts after at most as many tasks as there are places',
    (real) => ({
      take: (pool) => takeFirst(real, pool, () => true),
    }),
  ),
  rules('the last one starts first', 'callers take turns, and the tasks of each start in their order', (real) => ({
    take: (pool) => {
      const rows = real
        .live()
        .filter(({ task }) => task.status === 'queued')
        .reverse()
      for (const [n, row] of rows.entries()) row.dueAt = n
      return real.take(pool)
    },
  })),
  rules(
    'what is delayed counts as waiting',
    'counts() returns the running, waiting and delayed tasks of a pool',
    (real) => ({
      counts: (pool) => {
        const { delayed, waiting, ...others } = real.counts(pool)
        return { ...others, delayed: 0, waiting: waiting + delayed }
      },
    }),
  ),

  // Limits.
  rules('a limit is exceeded by one', LIMIT, (real) => ({
    create: (task) => real.create({ ...task, limit: task.limit && { ...task.limit, max: task.limit.max + 1 } }),
  })),
  calls(
    'a limit is checked before the task is written',
    'each group of each caller gets as many tasks as its limit, of many concurrent calls',
    (real) => ({
      create: async (task) => {
        const isOver = real.tasks.isOver(task.caller, task.limit)
        await new Promise((resolve) => setImmediate(resolve))
        if (isOver) return { outcome: 'caller_full' }
        return real.create({ ...task, limit: task.limit && { ...task.limit, max: Infinity } })
      },
    }),
  ),
  rules('final tasks count', 'each final status of a run frees its place at once', () => ({
    isCounted: ({ task, group }, caller, counted) => task.caller === caller && group === counted,
  })),
  rules(
    'a limit counts all callers',
    'a limit counts only the tasks of its caller, and no tasks without a caller',
    (real) => ({
      isCounted: (row, _caller, group) => row.task.caller !== undefined && real.isCounted(row, row.task.caller, group),
    }),
  ),
  rules(
    'tasks without a caller are limited',
    'a limit counts only the tasks of its caller, and no tasks without a caller',
    (real) => ({
      create: (task) => real.create({ ...task, caller: task.caller ?? '' }),
    }),
  ),
  rules('groups are ignored', GROUPS, (real) => ({
    isCounted: (row, caller) => row.group !== undefined && real.isCounted(row, caller, row.group),
  })),
  rules('tasks without a limit count', GROUPS, (real) => ({
    isCounted: (row, caller, group) => real.isCounted({ ...row, group: row.group ?? group }, caller, group),
  })),
  rules('a group without a name is none', GROUPS, (real) => ({
    isCounted: (row, caller, group) => group !== '' && real.isCounted(row, caller, group),
  })),
  rules('the name of a task is its group', GROUPS, (real) => ({
    isCounted: (row, caller, group) => real.isCounted({ ...row, group: row.task.name }, caller, group),
  })),
  calls(
    'groups of one caller are counted before the task is written',
    'each group of each caller gets as many tasks as its limit, of many concurrent calls',
    (real) => ({
      create: async (task) => {
        const isOver = real.tasks.isOver(task.caller, task.limit)
        await new Promise((resolve) => setImmediate(resolve))
        if (isOver) return { outcome: 'caller_full' }
        return real.create({ ...task, limit: task.limit && { ...task.limit, max: Infinity } })
      },
    }),
  ),
  rules('a full caller does not get its tasks', 'a full caller gets its existing tasks', (real) => ({
    create: (task) => (real.isOver(task.caller, task.limit) ? { outcome: 'caller_full' } : real.create(task)),
  })),
  rules('a retry needs no place', 'a retry needs a place', (real) => ({
    change: (ref, expected, { limit, ...change }) =>
      real.change(ref, expected, { ...change, limit: limit && { ...limit, max: Infinity } }),
  })),
  rules('a retry does not count again', RETRIED, (real) => ({
    change: (ref, expected, change) => {
      const changed = real.change(ref, expected, change)
      const row = real.rows.get(ref.id)
      if (row && change.limit && changed.outcome === 'changed') row.group = undefined
      return changed
    },
  })),
  rules('a retry stays in its first group', RETRIED, (real) => ({
    change: (ref, expected, change) => {
      const group = real.rows.get(ref.id)?.group
      const changed = real.change(ref, expected, change)
      const row = real.rows.get(ref.id)
      if (row && change.status === 'queued') row.group = group
      return changed
    },
  })),
  rules('a retry without a limit stays in its group', RETRIED, (real) => ({
    change: (ref, expected, change) => {
      const group = real.rows.get(ref.id)?.group
      const changed = real.change(ref, expected, change)
      const row = real.rows.get(ref.id)
      if (row && change.status === 'queued') row.group ??= group
      return changed
    },
  })),
  rules(
    'a full engine creates',
    'a full engine returns `full`, creates nothing, and creates tasks again when one is deleted',
    (real) => ({
      create: (task) => {
        const created = real.create(task)
        return created.outcome === 'full' ? { outcome: 'caller_full' } : created
      },
    }),
  ),

  // Lists.
  rules(
    'the order of a list is that of ids',
    'tasks of one millisecond are ordered by the code units of their ids',
    (real) => ({
      list: (query) => [...real.list(query)].sort((a, b) => a.id.localeCompare(b.id)),
    }),
  ),
  rules('the tenant of a list is ignored', FILTERS, (real) => ({
    list: (query) => real.list(query.of !== 'all' && 'caller' in query.of ? { ...query, of: 'all' } : query),
  })),
  rules('statuses are ignored', FILTERS, (real) => ({ list: ({ statuses: _, ...query }) => real.list(query) })),
  rules('names are ignored', FILTERS, (real) => ({ list: ({ names: _, ...query }) => real.list(query) })),
  rules('a task without an owner is in all lists', FILTERS, (real) => ({
    list: (query) => real.list(query.of !== 'all' && 'owner' in query.of && query.of.owner === undefined ? { ...query, of: 'all' } : query),
  })),
  rules('scheduled tasks are queued', FILTERS, (real) => ({
    list: (query) =>
      real.list(query.statuses?.includes('queued') ? { ...query, statuses: [...query.statuses, 'scheduled'] } : query),
  })),
  rules('`to` is included', 'a list includes tasks created at `from`, and excludes those created at `to`', (real) => ({
    list: ({ to, ...query }) => real.list(to === undefined ? query : { ...query, to: to + 1 }),
  })),
  rules('a page continues by time only', 'each page continues after the page before it, with every filter', (real) => ({
    list: ({ after, ...query }) =>
      real.list(after ? { ...query, after: { createdAt: after.createdAt, id: '' } } : query),
  })),
  calls(
    'lists are written later',
    'every process lists a created, changed or deleted task correctly at once',
    (real) => {
      let listed: Promise<readonly StoredTask[]> | undefined
      return {
        list: async (query) => {
          const earlier = listed
          listed = real.list(query)
          listed.catch(() => undefined)
          return earlier ?? listed
        },
      }
    },
  ),
  rules('a list has all parts of tasks', 'a list leaves out details and results on request', (real) => ({
    list: ({ omit: _, ...query }) => real.list(query),
  })),
  rules('a list has parts of tasks', FILTERS, (real) => ({
    list: (query) => real.list(query).map((task) => ({ ...task, details: {} })),
  })),

  // Expiry and shares.
  calls('an expired task is found by its key', 'an expired task is absent for every call', (real) => {
    const seen = new Map<string, StoredTask>()
    return {
      readByKey: async (key) => (await real.readByKey(key)) ?? seen.get(key),
      create: async (task) => {
        const created = await real.create(task)
        if (task.key !== undefined && 'task' in created) seen.set(task.key, created.task)
        return created
      },
    }
  }),
  rules('files are removed before their task expires', 'the files of an expired task are removed once', (real) => ({
    removals: () => real.live().filter(({ hasFiles }) => hasFiles),
  })),
  rules(
    'files of a task whose id is used again stay',
    'the files of an expired or deleted task are removed once, although its id and key are used again',
    (real) => ({
      removals: () => real.removals().filter(({ task }) => !real.rows.has(task.id)),
    }),
  ),
  calls(
    'all files are removed at once',
    'at most ten removals of files run at the same time, and they delay no callback',
    (real) => ({
      work: (options, handlers) =>
        real.work(options, {
          ...handlers,
          remove: async (task) => {
            void handlers.remove(task).catch(() => undefined)
            return true
          },
        }),
    }),
  ),
  rules(
    'files of a deleted task stay',
    'the files of an expired or deleted task are removed once, although its id and key are used again',
    (real) => ({
      delete: (ref, version) => {
        const row = real.rows.get(ref.id)
        const left = real.delete(ref, version)
        if (row && left === undefined) real.gone.delete(row)
        return left
      },
    }),
  ),
  rules('files stay if their removal failed', 'files whose removal failed are removed later', (real) => ({
    removals: () => real.removals().filter(({ removeAt }) => removeAt === 0),
  })),
  rules('an expired task runs on', 'the run of a task that expires is stopped, and can write nothing', () => ({
    renew: () => true,
  })),
  rules('a share of files has no limit', FILE_SHARE, () => ({ evictFiles: () => undefined })),
  rules('a share has no limit', SHARE, () => ({ evict: () => undefined })),
  rules('everybody pays for one caller', SHARE, (real) => ({
    evict: (caller) => {
      const final = [...real.rows.values()].filter(({ task }) => isFinalStatus(task.status))
      if (final.length > 12) real.rows.delete(final[0]?.task.id ?? '')
      real.evict(caller)
    },
  })),
  rules(
    'unfinished tasks go with the share',
    'a caller over its share loses its own oldest final tasks, and no others',
    (real) => ({
      evict: (caller) => {
        const own = [...real.rows.values()].filter(({ task }) => task.caller === caller)
        if (own.length > 20) real.rows.delete(own[0]?.task.id ?? '')
        real.evict(caller)
      },
    }),
  ),
  rules('bytes are not counted', 'the share limits the bytes of results, details, inputs and checkpoints', (real) => ({
    evict: (caller) => {
      const own = [...real.rows.values()].filter(({ task }) => task.caller === caller && isFinalStatus(task.status))
      if (own.length > 12) real.rows.delete(own[0]?.task.id ?? '')
    },
  })),

  // Watch.
  rules('nobody is told of a deletion', 'a watch reports each visible change, by any process', (real) => ({
    delete: (ref, version) => {
      const row = real.row(ref.id)
      if (row?.task.birth !== ref.birth || row.task.version !== version) return row?.task
      real.rows.delete(ref.id)
      return undefined
    },
  })),
  calls('listeners are called inside the call', 'a listener is not called inside the call that writes', (real) => ({
    change: (ref, expected, change) => {
      for (const listener of real.tasks.watchers.get(ref.id) ?? []) listener()
      return real.change(ref, expected, change)
    },
  })),
  calls('a notice comes before the change', 'a listener can read what was written', (real) => ({
    change: async (ref, expected, change) => {
      const listeners = real.tasks.watchers.get(ref.id)
      for (const listener of listeners ?? []) listener()
      real.tasks.watchers.delete(ref.id)
      await pause(5)
      const outcome = await real.change(ref, expected, change)
      if (listeners) real.tasks.watchers.set(ref.id, listeners)
      return outcome
    },
  })),
  calls('a watch cannot be stopped', 'a stopped watch gets no notice, and other watches do', (real) => ({
    watch: async (id, listener) => {
      await real.watch(id, listener)
      return () => undefined
    },
  })),
  calls(
    'a listener is called for every task',
    'each watch of a name is notified, and watches of other names are not',
    (real) => ({
      watch: (id, listener) => real.watch(id.toLowerCase(), listener),
    }),
  ),

  // Close.
  calls('close aborts at once', 'a run that ends within drainMs is not aborted', (real) => ({
    close: () => real.close({ drainMs: 0 }),
  })),
  calls('close does not wait', 'a run that ends within drainMs is not aborted', (real) => ({
    close: async (options) => {
      void real.close(options)
    },
  })),
  calls(
    'close aborts nothing',
    'a run that lasts longer than drainMs is aborted with a WorkerClosingError, and can be given back',
    () => ({ close: async () => undefined }),
  ),
  calls('close waits for what ignores it', 'a run that ignores its signal does not delay close', (real) => ({
    close: () => real.close({ drainMs: 60_000 }),
  })),
  calls(
    'a process that closes begins further runs',
    'a process that closes begins no runs, and leaves waiting tasks to others',
    (real) => ({
      close: async ({ drainMs }) => {
        await new Promise((resolve) => setTimeout(resolve, Math.min(drainMs, 80)))
        await real.close({ drainMs })
      },
    }),
  ),
  inMemory('close drops what waits', 'waiting tasks run during close, within drainMs', (real) => ({
    close: () => real.close({ drainMs: 0 }),
  })),
  inMemory('nothing is abandoned', 'each unfinished task is abandoned once, and close waits for it', (real) => ({
    work: (options, handlers) => real.work(options, { ...handlers, abandon: () => undefined }),
  })),
  inMemory(
    'close does not wait for abandon',
    'each unfinished task is abandoned once, and close waits for it',
    (real) => ({
      work: (options, handlers) =>
        real.work(options, {
          ...handlers,
          abandon: (task) => {
            void Promise.resolve(handlers.abandon(task)).catch(() => undefined)
          },
        }),
    }),
  ),

  // One call is one change.
  calls('a repetition of a create is refused', 'a repeated call gets the current task', (real) => {
    const seen = new Set<string>()
    return {
      create: async (task) => {
        if (seen.has(task.birth)) return { outcome: 'caller_full' }
        seen.add(task.birth)
        return real.create(task)
      },
    }
  }),
  calls(
    'a key is written after its task',
    'a create is applied as a whole or not at all if its process is killed',
    (real) => ({
      create: async ({ key, ...task }) => {
        const created = await real.create(task)
        const row = real.tasks.rows.get(task.id)
        if (row && !real.isKilled) row.task = { ...row.task, key }
        return created
      },
    }),
  ),
  calls(
    'a callback is made due after its task has ended',
    'an end of a run is applied with its callback or not at all if its process is killed',
    (real) => ({
      change: async (ref, expected, { callbackMs, ...change }) => {
        const changed = await real.change(ref, expected, change)
        if (changed.outcome !== 'changed' || callbackMs === undefined) return changed
        await new Promise((resolve) => setTimeout(resolve, 12))
        if (real.isKilled) throw new StoreUnavailableError('This process was killed.')
        return real.change(ref, 'callbackRun' in expected ? expected : { version: changed.task.version }, {
          callbackMs,
          isHidden: true,
        })
      },
    }),
  ),
  rules('the number of a run is its fence', LOST_BEGIN, (real) => ({
    holds: (task, expected) =>
      'lease' in expected ? task.status === 'processing' && task.run === 1 : real.holds(task, expected),
  })),
  rules('renewals carry no lease', LOST_BEGIN, (real) => ({
    renew: (task) => real.renew(task, real.row(task.id)?.lease ?? ''),
  })),
  rules(
    'a share is counted by pool',
    'a caller runs its share over all processes, and the tasks of other callers begin',
    (real) => ({
      take: (pool, { maxPerCaller, ...limits } = {}) => real.take(pool, { ...limits, maxRunning: maxPerCaller }),
    }),
  ),
  rules(
    'the limit of a name replaces that of the pool',
    'the limit of a name applies in addition to the limit of the pool',
    (real) => ({
      take: (pool, { maxPerCaller, ...limits } = {}) =>
        real.take(pool, limits.maxPerCallerOf ? limits : { ...limits, maxPerCaller }),
    }),
  ),
  rules('maxRunning is not obeyed', 'maxRunning limits a pool over all processes, and other pools run', (real) => ({
    take: (pool, limits) => real.take(pool, { ...limits, maxRunning: Infinity }),
  })),
  rules('startsPer is not obeyed', 'startsPer limits the begins within any window, over all processes', (real) => ({
    take: (pool, limits) => real.take(pool, { ...limits, startsPer: undefined }),
  })),
  calls(
    'a pause belongs to a process',
    'no run begins in a paused pool of any process, active runs continue, and other pools run',
    () => {
      const paused = new Set<string>()
      return {
        setPaused: (pool, isPaused) => {
          if (isPaused) paused.add(pool)
          else paused.delete(pool)
        },
        pausedPools: () => [...paused],
      }
    },
  ),
  rules(
    'a business key is ignored',
    'a call with the business key of an unfinished task returns this task, and nothing is created',
    (real) => ({
      create: (task) => real.create({ ...task, unique: undefined }),
    }),
  ),
  rules(
    'a retry gets its business key back',
    'a final task loses its business key, and a retry does not get it back',
    (real) => {
      const keys = new Map<string, string>()
      return {
        change: (ref, expected, change) => {
          const { unique } = real.row(ref.id) ?? {}
          if (unique !== undefined) keys.set(ref.id, unique)
          const changed = real.change(ref, expected, change)
          const row = real.row(ref.id)
          if (row && change.status === 'queued') row.unique ??= keys.get(ref.id)
          return changed
        },
      }
    },
  ),
  rules(
    'a task that has begun is replaced',
    'a running task is returned for its business key, whatever ifExists says',
    (real) => ({
      create: (task) => {
        const row = [...real.rows.values()].find(({ unique }) => unique === task.unique?.key)
        if (!row || task.unique?.ifExists !== 'replace') return real.create(task)
        row.task = { ...row.task, details: task.details }
        return { outcome: 'replaced', task: row.task }
      },
    }),
  ),
  rules('an end may be overwritten', RANDOM, (real) => ({
    holds: (task, expected) =>
      'lease' in expected ? task.run >= Number(expected.lease) && task.run > 0 : real.holds(task, expected),
  })),
]

/** Begins the task that became due first, whosever it is. */
function takeFirst(tasks: ModelTasks, pool: string, is: (row: Row) => boolean): ReturnType<ModelTasks['take']> {
  const [first] = tasks.live()
    .filter((row) => is(row) && row.task.pool === pool && row.task.status === 'queued')
    .sort((a, b) => a.task.createdAt - b.task.createdAt || a.dueAt - b.dueAt)
  if (!first) return undefined
  const others = [...tasks.rows.values()].filter((row) => row !== first)
  for (const row of others) row.dueAt += 1e12
  const taken = tasks.take(pool)
  for (const row of others) row.dueAt -= 1e12
  return taken
}
