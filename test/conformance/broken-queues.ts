import { HandBackError, isHandBack, type Attempt, type Job, type ProcessOptions, type Queue, type RunJob } from '../../src/queues/queue.js'
import { MemoryQueue } from '../../adapters/memory/index.js'
import { type Broken } from './broken-stores.js'

/** Hands every call on, so that one of them can be replaced. */
export function queueLike(real: Queue, faults: Partial<Queue> = {}): Queue {
  return {
    durable: real.durable,
    enqueue: (job, options) => real.enqueue(job, options),
    process: (run, options) => real.process(run, options),
    remove: (id) => real.remove(id),
    has: (id) => real.has(id),
    close: (options) => real.close(options),
    ...faults
  }
}

const CAPACITY = 50

const broken = (fault: string, caughtBy: string, faults: (real: MemoryQueue) => Partial<Queue>): Broken<Queue> => ({
  fault,
  caughtBy,
  make: () => {
    const real = new MemoryQueue({ maxQueued: CAPACITY })
    return queueLike(real, faults(real))
  }
})

/** `run` goes through `change` first. */
const running = (fault: string, caughtBy: string, change: (run: RunJob) => RunJob) =>
  broken(fault, caughtBy, (real) => ({ process: (run, options) => real.process(change(run), options) }))

/** So does `onDead`. */
const burying = (fault: string, caughtBy: string, change: (onDead: ProcessOptions['onDead']) => ProcessOptions['onDead']) =>
  broken(fault, caughtBy, (real) => ({ process: (run, options) => real.process(run, { ...options, onDead: change(options.onDead) }) }))

const TRIED = 'a job that fails is tried as often as it may be, then reported once'
const ONCE = 'of many jobs each runs once, never more at a time than the concurrency'
const BACK = 'a job that is handed back runs again after the delay, and no attempt is used up'
const HAS = 'has knows a job that waits, is delayed, runs or waits for its next attempt, and none that has gone'
const LEFT = 'a run that is left after drainMs is aborted, with a QueueClosingError'

export const BROKEN_QUEUES: readonly Broken<Queue>[] = [
  running('every job runs twice', 'a job runs once, with all its data', (run) => async (job, attempt) => {
    await run(job, attempt)
    await run(job, attempt)
  }),
  broken('the context gets lost', 'a job runs once, with all its data', (real) => ({
    enqueue: ({ id, taskId, name, input }, options) => real.enqueue({ id, taskId, name, input }, options)
  })),
  running('what was told of the record is another one', 'what it is told of the record comes back as it was, or not at all', (run) => (job, attempt) => (
    run({ ...job, record: `${job.record ?? ''}?` }, attempt)
  )),
  broken('an input that is false counts as none', 'any JSON value may be the input', (real) => ({
    enqueue: (job, options) => real.enqueue({ ...job, input: job.input || {} }, options)
  })),
  broken('what waits before process() is forgotten', 'what was enqueued before process() runs', (real) => {
    let processing = false
    return {
      enqueue: async (job, options) => processing ? real.enqueue(job, options) : 'accepted',
      process: (run, options) => {
        processing = true
        real.process(run, options)
      }
    }
  }),
  broken('run is called inside enqueue', 'run is not called inside enqueue', (real) => {
    let run: RunJob = async () => undefined
    return {
      process: (given) => { run = given },
      enqueue: async (job) => {
        void run(job, { attempt: 1, lastAttempt: true, signal: AbortSignal.abort() })
        return 'accepted' as const
      },
      close: () => real.close()
    }
  }),
  broken('the concurrency is doubled', ONCE, (real) => ({
    process: (run, options) => real.process(run, { ...options, concurrency: 2 * options.concurrency })
  })),
  broken('jobs run one by one', ONCE, (real) => ({ process: (run, options) => real.process(run, { ...options, concurrency: 1 }) })),
  broken('each enqueue is a job of its own', 'an id that waits or runs is taken once; one that ended is taken anew', (real) => {
    let count = 0
    return {
      enqueue: (job, options) => real.enqueue({ ...job, id: `${job.id}#${++count}` }, options),
      process: (run, options) => real.process((job, attempt) => run({ ...job, id: job.id.split('#')[0] ?? '' }, attempt), options)
    }
  }),
  broken('an id is taken once for ever', 'an id that waits or runs is taken once; one that ended is taken anew', (real) => {
    const seen = new Set<string>()
    return {
      enqueue: async (job, options) => {
        if (seen.has(job.id)) return 'accepted'
        seen.add(job.id)
        return real.enqueue(job, options)
      }
    }
  }),
  broken('a delay is ignored', 'a delayed job runs after its delay, and does not hold up others', (real) => ({
    enqueue: (job, { delayMs: _, ...options } = {}) => real.enqueue(job, options)
  })),
  broken('a delayed job holds up others', 'a delayed job runs after its delay, and does not hold up others', (real) => {
    const delays = new Map<string, number>()
    return {
      enqueue: (job, { delayMs = 0, ...options } = {}) => {
        delays.set(job.id, delayMs)
        return real.enqueue(job, options)
      },
      process: (run, options) => real.process(async (job, attempt) => {
        await new Promise((resolve) => setTimeout(resolve, delays.get(job.id)))
        await run(job, attempt)
      }, options)
    }
  }),
  broken('no attempts means one', 'misuse rejects with a TypeError and takes nothing', (real) => ({
    enqueue: (job, options = {}) => real.enqueue(job, { ...options, attempts: Math.max(1, Math.floor(options.attempts ?? 1)) })
  })),
  broken('attempts are ignored', TRIED, (real) => ({ enqueue: (job) => real.enqueue(job) })),
  broken('there is one attempt too many', TRIED, (real) => ({
    enqueue: (job, options = {}) => real.enqueue(job, { ...options, attempts: (options.attempts ?? 1) + 1 })
  })),
  running('every attempt is the last', TRIED, (run) => (job, { attempt, signal }) => run(job, { attempt, signal, lastAttempt: true })),
  running('attempts count from 0', TRIED, (run) => (job, { attempt, lastAttempt, signal }) => run(job, { attempt: attempt - 1, lastAttempt, signal })),
  burying('nobody hears of the dead', 'without attempts a job is tried once', () => () => undefined),
  burying('the dead are reported twice', TRIED, (onDead) => async (job, reason) => {
    await onDead(job, reason)
    await onDead(job, reason)
  }),
  burying('every reason is stalled', TRIED, (onDead) => (job) => onDead(job, 'stalled')),
  running('a run that throws at once counts as done', 'a run that throws at once, or rejects with nothing, has failed', (run) => async (job, attempt) => {
    let done: Promise<void> | undefined
    try {
      done = run(job, attempt)
    } catch {
      // Not a rejection, so it is not seen.
    }
    await done
  }),
  running('a rejection without a reason counts as none', 'a run that throws at once, or rejects with nothing, has failed', (run) => async (job, attempt) => {
    const failure = await Promise.resolve(run(job, attempt)).then(() => undefined, (reason: Error) => reason)
    if (failure) throw failure
  }),
  running('attempts share one input', 'each attempt gets the input as it was enqueued', (run) => {
    const jobs = new Map<string, Job>()
    return (job, attempt) => {
      jobs.set(job.id, jobs.get(job.id) ?? job)
      return run(jobs.get(job.id) ?? job, attempt)
    }
  }),
  broken('a back-off is ignored', 'a fixed back-off waits the same time before each attempt', (real) => ({
    enqueue: (job, { backoff: _, ...options } = {}) => real.enqueue(job, options)
  })),
  broken('every back-off is fixed', 'an exponential back-off doubles', (real) => ({
    enqueue: (job, options = {}) => real.enqueue(job, { ...options, ...options.backoff && { backoff: { ...options.backoff, type: 'fixed' } } })
  })),
  broken('maxDelayMs is ignored', 'maxDelayMs bounds the back-off', (real) => ({
    enqueue: (job, options = {}) => real.enqueue(job, { ...options, ...options.backoff && { backoff: { ...options.backoff, maxDelayMs: 1e9 } } })
  })),
  broken('jitter takes off everything', 'jitter only shortens', (real) => ({
    enqueue: (job, options = {}) => real.enqueue(job, { ...options, ...options.backoff && { backoff: { ...options.backoff, delayMs: 1 } } })
  })),
  running('a job that is handed back counts as done', BACK, (run) => async (job, attempt) => {
    try {
      await run(job, attempt)
    } catch (error) {
      if (!isHandBack(error)) throw error
    }
  }),
  running('a job that is handed back has failed', BACK, (run) => (job, attempt) => run(job, attempt).catch((error: unknown) => {
    throw isHandBack(error) ? new Error(error.message) : error
  })),
  running('a job that is handed back runs again at once', BACK, (run) => (job, attempt) => run(job, attempt).catch((error: unknown) => {
    throw isHandBack(error) ? new HandBackError(0) : error
  })),
  broken('has always says true', HAS, () => ({ has: async () => true })),
  broken('has always says false', HAS, () => ({ has: async () => false })),
  broken('has knows nothing of what runs', HAS, (real) => {
    const running = new Set<string>()
    return {
      has: async (id) => !running.has(id) && await real.has(id),
      process: (run, options) => real.process(async (job, attempt) => {
        running.add(job.id)
        await run(job, attempt).finally(() => running.delete(job.id))
      }, options)
    }
  }),
  burying('has knows nothing of the dead', 'has knows a dead job until onDead has settled', (onDead) => (job, reason) => { void onDead(job, reason) }),
  broken('ids are trimmed', 'ids that an engine may not take, or may take for another, are jobs of their own', (real) => ({
    enqueue: (job, options) => real.enqueue({ ...job, id: job.id.replace(/^(id-|~)/, '') }, options)
  })),
  broken('remove always says true', 'remove takes a waiting job out, once', (real) => ({ remove: async (id) => await real.remove(id) || true })),
  broken('remove only says so', 'remove takes a waiting job out, once', () => {
    const gone = new Set<string>()
    return { remove: async (id) => id !== 'never-was' && !gone.has(id) && gone.add(id).has(id) }
  }),
  broken('remove finds no delayed jobs', 'remove takes a delayed job out', (real) => {
    const delayed = new Set<string>()
    return {
      enqueue: (job, options) => {
        if (options?.delayMs) delayed.add(job.id)
        return real.enqueue(job, options)
      },
      remove: async (id) => !delayed.has(id) && real.remove(id)
    }
  }),
  broken('remove takes what runs', 'remove leaves a job that runs, and one that ended', (real) => {
    const ran = new Set<string>()
    return {
      process: (run, options) => real.process((job, attempt) => {
        ran.add(job.id)
        return run(job, attempt)
      }, options),
      remove: async (id) => ran.has(id) || real.remove(id)
    }
  }),
  broken('an id that was removed is not taken again', 'a job that was removed can be enqueued again', (real) => {
    const gone = new Set<string>()
    return {
      enqueue: async (job, options) => gone.has(job.id) ? 'accepted' : real.enqueue(job, options),
      remove: (id) => {
        gone.add(id)
        return real.remove(id)
      }
    }
  }),
  broken('a full queue says accepted and drops', 'a full queue says so, takes nothing, and has room again later', (real) => ({
    enqueue: async (job, options) => {
      await real.enqueue(job, options)
      return 'accepted' as const
    }
  })),
  broken('a retry needs a free place', 'a retry finds its place in a full queue', (real) => ({
    process: (run, options) => real.process(async (job, attempt) => {
      try {
        await run(job, attempt)
      } catch (error) {
        if (real.usage().waiting < CAPACITY) throw error
      }
    }, options)
  })),
  broken('a closing queue takes jobs', 'after close nothing is taken', () => ({ enqueue: async () => 'accepted' as const })),
  broken('close does not wait', 'a run may end within drainMs, and is not aborted', (real) => ({
    close: async (options) => { void real.close(options) }
  })),
  broken('close aborts at once', 'a run may end within drainMs, and is not aborted', (real) => ({ close: () => real.close({ drainMs: 0 }) })),
  running('no signal ever aborts', LEFT, (run) => (job, { attempt, lastAttempt }) =>
    run(job, { attempt, lastAttempt, signal: new AbortController().signal })),
  running('the abort has no reason', LEFT, (run) => (job, attempt) => {
    const controller = new AbortController()
    attempt.signal.addEventListener('abort', () => controller.abort())
    return run(job, { attempt: attempt.attempt, lastAttempt: attempt.lastAttempt, signal: controller.signal })
  }),
  running('a signal that comes late is not aborted', 'a signal that is asked for after the abort is aborted', (run) => (job, { attempt, lastAttempt }) => {
    const late: Attempt = {
      attempt,
      lastAttempt,
      get signal() {
        return new AbortController().signal
      }
    }
    return run(job, late)
  }),
  burying('what close leaves undone is not reported', 'what is left undone is reported, each job once', (onDead) => (job, reason) =>
    reason === 'closed' ? undefined : onDead(job, reason)),
  broken('an aborted run that resolves is reported', 'a run that resolves on the abort is done', (real) => ({
    process: (run, options) => real.process(async (job, attempt) => {
      await run(job, attempt)
      if (attempt.signal.aborted) await options.onDead(job, 'closed')
    }, options)
  })),
  broken('close waits for what ignores it', 'a run that ignores its signal does not hold up close, and is reported once', (real) => ({
    close: async (options) => {
      if (real.usage().running > 0) await new Promise(() => undefined)
      await real.close(options)
    }
  })),
  broken('close drops what waits', 'what waits is run while there is time, unless another process can', (real) => {
    const ids: string[] = []
    return {
      enqueue: (job, options) => {
        ids.push(job.id)
        return real.enqueue(job, options)
      },
      close: async (options) => {
        for (const id of ids) await real.remove(id)
        await real.close(options)
      }
    }
  }),
  burying('close does not wait for onDead', 'close waits for onDead', (onDead) => (job, reason) => { void onDead(job, reason) }),
  broken('close waits for an attempt that comes too late', 'a job that fails while the queue drains is tried again or reported', (real) => ({
    close: async (options) => {
      while (real.usage().waiting + real.usage().running > 0) await new Promise((resolve) => setTimeout(resolve, 10).unref())
      await real.close(options)
    }
  }))
]
