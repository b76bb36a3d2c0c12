import type { TaskEngine, TaskRun } from '../../src/engine/engine.js'
import type {
  Changed, Created, Expected, NewTask, TaskChange, TaskRef,
} from '../../src/engine/task.js'
import { monotonicMs, type Recorded } from './history.js'
import type { WorkInput } from './terms.js'

type Record = (event: Recorded) => void

/** Wraps an engine, so that begins, changes of runs, and submissions with a key are recorded. */
export function recorded(engine: TaskEngine, record: Record): TaskEngine {
  const methods: Partial<TaskEngine> = {
    work: (options, handlers) => {
      const run = (begun: TaskRun): Promise<void> => {
        recordBegin(begun, record)
        return handlers.run(begun)
      }
      engine.work(options, { ...handlers, run })
    },
    change: (ref, expected, change) => {
      const make = async (): Promise<Changed> => engine.change(ref, expected, change)
      return 'lease' in expected ? recordWrite({ ref, expected, change }, make, record) : make()
    },
    create: (task, options) => {
      const make = async (): Promise<Created> => engine.create(task, options)
      return task.unique ? recordSubmission(task, make, record) : make()
    },
  }
  return new Proxy(engine, {
    get(target, name) {
      const own: unknown = Reflect.get(methods, name) ?? Reflect.get(target, name)
      return typeof own === 'function' ? own.bind(target) as unknown : own
    },
  })
}

function recordBegin({ task, lease, input, checkpoint }: TaskRun, record: Record): void {
  const { id, run, version, name, pool, owner = '' } = task
  const { createdAt, startedAt = 0, runStartedAt = 0 } = task
  const { n } = input.value as WorkInput
  record({
    kind: 'begin', at: monotonicMs(), pid: process.pid, task: id, lease, run, version, name, pool,
    owner, n, checkpoint, createdMs: createdAt, firstMs: startedAt, startedMs: runStartedAt,
  })
}

interface ChangeCall {
  readonly ref: TaskRef
  readonly expected: Extract<Expected, { readonly lease: string }>
  readonly change: TaskChange
}

async function recordWrite(
  { ref, expected, change }: ChangeCall, make: () => Promise<Changed>, record: Record,
): Promise<Changed> {
  const call = {
    kind: 'write', at: monotonicMs(), task: ref.id, lease: expected.lease,
    checkpoint: change.checkpoint ?? undefined,
  } as const
  const made = make()
  made.then(
    ({ outcome }) => { record({ ...call, outcome: outcome === 'changed' ? 'changed' : 'refused' }) },
    () => { record({ ...call, outcome: 'unknown' }) },
  )
  return made
}

async function recordSubmission(
  task: NewTask, make: () => Promise<Created>, record: Record,
): Promise<Created> {
  const { n } = task.input.value as WorkInput
  const call = { kind: 'submission', at: monotonicMs(), key: task.unique?.key ?? '', n } as const
  const made = make()
  made.then(
    (created) => {
      if (!('task' in created)) return record({ ...call, outcome: 'refused' })
      const { outcome, task: { id, version } } = created
      record({ ...call, outcome, task: id, version })
    },
    () => { record({ ...call, outcome: 'unknown' }) },
  )
  return made
}
