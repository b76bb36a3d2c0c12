import { newId } from '../../src/runtime/random-id.js'
import {
  duration, func, hasMethod, readOptions, text, value, type OptionTable,
} from '../../src/runtime/options.js'
import { unlessAborted } from '../../src/runtime/timers.js'
import type { Schema } from '../../src/schema/schema.js'
import {
  defineTask, type TaskDefinition, type TaskOptions, type TaskSettings,
} from '../../src/tasks/definition/define.js'
import type { TaskContext } from '../../src/tasks/definition/run-context.js'
import type { TaskProgress } from '../../src/wire/task.js'
import type { JobEvents, JobQueue, QueuedJob } from './job-queue.js'
import { JobWait } from './job-wait.js'

/** Options of a job that `bullmqTask` sets itself. */
type OwnJobOptions =
  'jobId' | 'removeOnComplete' | 'removeOnFail' | 'repeat' | 'deduplication' | 'debounce'

type JobOptionsOf<Q extends JobQueue> = Omit<NonNullable<Parameters<Q['add']>[2]>, OwnJobOptions>

/** The result of the jobs of a queue; `unknown` if the queue has no types. */
type JobResultOf<Q extends JobQueue> =
  NonNullable<Awaited<ReturnType<Q['getJob']>>>['returnvalue'] extends infer R
    ? 0 extends 1 & R ? unknown : R : never

/**
 * Options of `bullmqTask`, beside those of `defineTask`. `I` is the output of the schema of the input,
 * `In` its input, `Out` the result, `Q` the queue.
 */
export interface BullmqTaskOptions<
  I = unknown, In = I, Out = unknown, N extends string = string, Q extends JobQueue = JobQueue,
> extends Omit<TaskSettings, 'files' | 'partialFiles' | 'maxFileBytes' | 'version' | 'timeoutMs'>,
  Pick<TaskOptions<I, Out, unknown, In, Out, N>, 'name' | 'input' | 'check' | 'output' | 'schedule'> {
  /** Your `Queue` of BullMQ. You close it, after `tasks.close()`. */
  readonly queue: Q
  /** A `QueueEvents` of BullMQ for the same queue. You close it, after `tasks.close()`. */
  readonly events: JobEvents
  /**
   * Time limit of one run, in milliseconds. It includes the time that the job waits in its queue.
   * Default: 86_400_000 (one day).
   */
  readonly timeoutMs?: number
  /** Name of the job. Default: `name`. */
  readonly jobName?: string
  /** Returns the data of the job. Default: the input. */
  readonly data?: (input: I, task: Pick<TaskContext, 'taskId' | 'owner' | 'tenant' | 'context'>) => unknown
  /** Options of the job, such as `attempts`, `backoff` and `priority`. Default: those of the queue. */
  readonly jobOptions?: JobOptionsOf<Q>
  /**
   * Time for which BullMQ keeps the job once it has ended, in milliseconds. Default: 86_400_000
   * (one day).
   *
   * Make it longer than all processes that run these tasks may be down.
   *
   * Until one of these processes has read the result, only the job has it.
   */
  readonly jobRetentionMs?: number
  /**
   * Returns the progress of the task; `undefined` leaves it as it is. Default: a number of the job
   * is a percentage, an object `{ done, total?, message?, unit? }` is the progress itself.
   *
   * By default, other values are ignored.
   */
  readonly progress?: (jobProgress: unknown) => TaskProgress | undefined
  /**
   * Called with the id of the job if the task was cancelled, or timed out, while a worker has the
   * job. Default: the job continues, and its result is dropped.
   *
   * Tell the worker, so that it calls `worker.cancelJob(jobId)`.
   */
  readonly cancelActive?: (jobId: string) => unknown
}

/** Options that `defineTask` checks. */
const ofTask = value()
const DAY_MS = 86_400_000

const isQueue = (given: unknown): boolean => (
  ['add', 'getJob', 'getJobState', 'remove'].every((name) => hasMethod(name)(given))
)

const OPTIONS = {
  name: ofTask, input: ofTask, check: ofTask, output: ofTask, schedule: ofTask, timeoutMs: ofTask,
  attempts: ofTask, backoff: ofTask, pool: ofTask, priority: ofTask, retentionMs: ofTask, failedRetentionMs: ofTask,
  maxPerOwner: ofTask, maxRunningPerOwner: ofTask, shared: ofTask, onFailed: ofTask,
  queue: value('a Queue of bullmq 4 or later', isQueue, { required: true }),
  events: value('a QueueEvents of bullmq 4 or later', hasMethod('on'), { required: true }),
  jobName: text(), data: func(), jobOptions: value('an object', (given) => typeof given === 'object'),
  jobRetentionMs: duration({ min: 1000 }), progress: func(), cancelActive: func(),
} satisfies OptionTable<BullmqTaskOptions>

const OWN_JOB_OPTIONS = {
  jobId: 0, removeOnComplete: 0, removeOnFail: 0, repeat: 0, deduplication: 0, debounce: 0,
} satisfies Record<OwnJobOptions, 0>

/** The job that a run has added. */
interface Added {
  readonly jobId: string
}

/**
 * Defines a task whose work is a job of your own BullMQ queue, for BullMQ 4, 5 or 6. Your workers stay as
 * they are. A run adds the job and waits for its end: a later run, after a crash or a deploy, finds the
 * job by its id. The task has the result and the progress of the job. If the job fails, `onError` gets its
 * `failedReason`, and clients get `task_failed`. Cancelling the task removes a job that no worker has.
 *
 * @example
 * import { bullmqTask } from 'longhaul/bullmq'
 * import { Queue, QueueEvents } from 'bullmq'
 * import { z } from 'zod'
 *
 * const connection = { host: '127.0.0.1' }
 * const video = bullmqTask({
 *   name: 'video',
 *   queue: new Queue('videos', { connection }),
 *   events: new QueueEvents('videos', { connection }),
 *   input: z.object({ url: z.url() }),
 *   output: z.object({ seconds: z.number() }),
 * })
 *
 * @throws {TypeError} An option is unknown or not valid.
 */
export function bullmqTask<
  Q extends JobQueue, I = unknown, In = I, Out = unknown, N extends string = string,
>(
  options: BullmqTaskOptions<I, In, Out, N, Q>,
): TaskDefinition<I, unknown extends Out ? JobResultOf<Q> : Out, unknown, In, N, Added> {
  const where = `bullmqTask(${JSON.stringify(options?.name)})`
  readOptions(where, options as unknown as BullmqTaskOptions, OPTIONS)
  const {
    queue, events, jobName = options.name, data = (input: I) => input, jobOptions = {},
    jobRetentionMs = DAY_MS, progress: toProgress = progressOf, cancelActive, ...settings
  } = options
  checkQueue(where, options as unknown as BullmqTaskOptions)
  const age = Math.ceil(jobRetentionMs / 1000)
  const keep = { removeOnComplete: { age }, removeOnFail: { age } }

  const run = async (input: I, context: TaskContext<unknown, Added>): Promise<unknown> => {
    const { workId: jobId = newId(), signal, checkpoint, progress } = context
    const onProgress = (given: unknown): void => {
      const { done, total, message, unit } = toProgress(given) ?? {}
      if (done !== undefined) progress(done, total, message, unit)
    }
    const wait = new JobWait(queue, events, jobId, { signal, onProgress })
    // Says that the job was added, and that this run has not crashed. A failed save costs no more.
    const save = () => checkpoint.save({ jobId }).catch(() => { signal.throwIfAborted() })
    try {
      if (checkpoint.value?.jobId !== jobId) {
        await wait.add(async () => {
          const added = await queue.add(jobName, data(input, context), { ...jobOptions, ...keep, jobId })
          if (added.id !== jobId) throw new Error(`${queue.name} has the job ${added.id} in place of a new one`)
        })
      }
      await save()
      const end = await wait.end()
      if (end === undefined) {
        // Rejects if the task was cancelled, which removes the job too.
        await save()
        throw new Error(`The job ${jobId} of the queue ${queue.name} was removed before it had ended`)
      }
      if (end.state === 'failed') throw failureOf(queue.name, jobId, end.job)
      return end.job.returnvalue
    } finally {
      wait.close()
    }
  }
  return defineTask({
    timeoutMs: DAY_MS, ...settings, checkpoint: ADDED,
    run: (input: I, context: TaskContext<unknown, Added>) => (
      unlessAborted(run(input, context), context.signal)
    ),
    cancel: async (jobId: string) => {
      const state = await queue.getJobState(jobId)
      if (['unknown', 'completed', 'failed'].includes(state)) return
      if (await queue.remove(jobId) === 0) await cancelActive?.(jobId)
    },
  } as never) as never
}

const ADDED: Schema<Added> = {
  '~standard': {
    version: 1, vendor: 'longhaul', validate: (given) => ({ value: given as Added }),
  },
}

function checkQueue(where: string, { queue, events, jobOptions }: BullmqTaskOptions): void {
  if (events.name !== queue.name) {
    throw new TypeError(`${where}: events are those of the queue ${events.name}, not of ${queue.name}`)
  }
  for (const name in jobOptions) {
    if (Object.hasOwn(OWN_JOB_OPTIONS, name)) {
      throw new TypeError(`${where}: jobOptions must not have ${name}, which bullmqTask sets itself`)
    }
  }
}

function progressOf(given: unknown): TaskProgress | undefined {
  if (typeof given === 'number') return given >= 0 && given <= 100 ? { done: given, total: 100 } : { done: given }
  const isProgress = typeof (given as TaskProgress | null)?.done === 'number'
  return isProgress ? given as TaskProgress : undefined
}

function failureOf(
  queue: string, jobId: string, { failedReason = 'no reason', stacktrace }: QueuedJob,
): Error {
  const cause = new Error(failedReason)
  const stack = stacktrace?.at(-1)
  if (stack !== undefined) cause.stack = stack
  return new Error(`The job ${jobId} of the queue ${queue} has failed: ${failedReason}`, { cause })
}
