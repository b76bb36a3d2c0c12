// Tasks in front of an application's own BullMQ queue, with both majors of BullMQ, whose workers are another process.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, describe, test, type TestContext } from 'node:test'
import { Redis } from 'ioredis'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { bullmqTask, type BullmqTaskOptions } from 'longhaul/bullmq'
import { toFetch } from 'longhaul/fetch'
import { memory } from 'longhaul/memory'
import { MAJORS, queueForFile, startWorkers } from '../../faults/bullmq/queues.js'
import { eventually, keepAlive, within } from '../../kit/wait.js'
import { redisForFile } from '../../servers/redis-server.js'
import { stopAfterwards } from '../kit/process.js'

stopAfterwards()
const { url } = await redisForFile()
const redis = new Redis(url)
after(() => { redis.disconnect() })

interface Status {
  readonly status: string
  readonly result: unknown
  readonly progress?: { readonly done: number }
  readonly error: { readonly code: string }
}

for (const major of MAJORS) {
  describe(`BullMQ ${major}`, async () => {
    const { queue, events } = queueForFile(major, url)
    const worker = await startWorkers(major, url, queue.name)

    function open(t: TestContext, options: Partial<BullmqTaskOptions> = {}) {
      keepAlive(t)
      const errors: unknown[] = []
      const work = bullmqTask({ name: 'work', queue, events, ...options })
      const tasks = createTasks({
        ...memory(),
        definitions: [work],
        progressIntervalMs: 0,
        concurrency: 100,
        onError: (error) => {
          errors.push(error)
        },
      })
      t.after(() => tasks.close({ drainMs: 0 }))
      const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
      const handle = toFetch(
        router({
          'POST /work': endpoints.submit(work),
          'GET|DELETE /tasks/{id}': endpoints.status,
          'POST /tasks/{id}/retry': endpoints.retry,
        }),
      )
      const ask = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
        handle(
          new Request(`http://localhost${path}`, {
            method,
            headers: { 'content-type': 'application/json', ...headers },
            ...(body !== undefined && { body: JSON.stringify(body) }),
          }),
        )
      const submit = async (data: unknown) => {
        const response = await ask('POST', '/work', data, { prefer: 'respond-async' })
        assert.equal(response.status, 202)
        const path = response.headers.get('location') ?? ''
        return { path, id: path.split('/').at(-1) ?? '' }
      }
      const read = async (path: string, headers?: Record<string, string>) =>
        (await (await ask('GET', path, undefined, headers)).json()) as Status
      const ended = (path: string) => read(path, { prefer: 'wait=30' })
      return { tasks, work, errors, handle, ask, submit, read, ended }
    }
    const jobOf = async (id: string) => (await queue.getJobs()).find((job) => job?.id?.startsWith(`${id}.`))
    const isState = async (id: string, state: string) => await (await jobOf(id))?.getState() === state

    test('a submission gets a 202, and its task gets the result of the job', async (t) => {
      const { submit, ended } = open(t)
      const { path } = await submit({ say: { pages: 3 } })
      const { status, result } = await ended(path)
      assert.deepEqual({ status, result }, { status: 'completed', result: { pages: 3 } })
    })

    test('a synchronous request gets the result of the job', async (t) => {
      const response = await open(t).ask('POST', '/work', { say: [1] })
      assert.deepEqual([response.status, await response.json()], [200, [1]])
    })

    test('a client that disconnects from a synchronous request removes its job', async (t) => {
      const { handle } = open(t, { jobOptions: { delay: 3_600_000 } })
      const leaving = new AbortController()
      const body = JSON.stringify({ by: 'a client that leaves' })
      const asked = handle(
        new Request('http://localhost/work', {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body,
          signal: leaving.signal,
        }),
      ).catch(() => undefined)
      const mine = async () => (await queue.getDelayed()).find((job) => JSON.stringify(job.data) === body)
      await eventually(async () => await mine() !== undefined, 30_000)
      leaving.abort()
      await asked
      await eventually(async () => await mine() === undefined, 30_000)
    })

    test('a job that returns nothing makes the result null', async (t) => {
      const { submit, ended } = open(t)
      const { status, result } = await ended((await submit({})).path)
      assert.deepEqual({ status, result }, { status: 'completed', result: null })
    })

    test('the job gets the name, the data and the options that the definition gives it', async (t) => {
      const { submit, ended } = open(t, {
        jobName: 'double',
        data: (input, { taskId, owner }) => ({ say: { input, isTask: taskId !== undefined, owner: owner ?? null } }),
        jobOptions: { attempts: 4 },
      })
      const { path, id } = await submit({ n: 1 })
      assert.deepEqual((await ended(path)).result, { input: { n: 1 }, isTask: true, owner: null })
      const job = await jobOf(id)
      assert.deepEqual([job?.name, job?.opts.attempts], ['double', 4])
    })

    test('a queue that removes ended jobs keeps a job of a task for a day', async (t) => {
      const { submit, ended } = open(t)
      const { path, id } = await submit({ say: 1 })
      await ended(path)
      const job = await jobOf(id)
      assert.deepEqual([job?.opts.removeOnComplete, job?.opts.removeOnFail], [{ age: 86_400 }, { age: 86_400 }])
    })

    test('onError receives the failed reason with its stack, and clients see a masked failure', async (t) => {
      const { submit, ended, errors } = open(t)
      const { path } = await submit({ fail: 'the password of the database is wrong' })
      const { status, error } = await ended(path)
      assert.deepEqual([status, error.code], ['failed', 'task_failed'])
      assert.doesNotMatch(JSON.stringify(error), /password/)
      const { message, cause } = errors[0] as Error & { cause: Error }
      assert.match(message, /^The job \S+ of the queue \S+ has failed: the password of the database is wrong$/)
      assert.equal(cause.message, 'the password of the database is wrong')
      assert.match(cause.stack ?? '', /worker/)
    })

    test('BullMQ counts the attempts of the job, and the task has one attempt', async (t) => {
      const { submit, ended } = open(t, { jobOptions: { attempts: 3 } })
      const { path, id } = await submit({ fail: 'no' })
      assert.equal((await ended(path)).status, 'failed')
      const job = await jobOf(id)
      assert.equal(job?.attemptsMade, 3)
      assert.equal((await queue.getJobs()).filter((each) => each?.id?.startsWith(`${id}.`)).length, 1)
    })

    test('each attempt of a task has its own job', async (t) => {
      const { submit, ended } = open(t, { attempts: 2, backoff: { type: 'fixed', delayMs: 1 } })
      const { path, id } = await submit({ fail: 'no' })
      assert.equal((await ended(path)).status, 'failed')
      const ids = (await queue.getJobs()).map((job) => String(job?.id)).filter((each) => each.startsWith(`${id}.`))
      assert.deepEqual(ids.map((each) => each.split('.')[1]).sort(), ['1', '2'])
    })

    test('a retry of a failed task adds another job', async (t) => {
      const { submit, ended, ask } = open(t)
      const { path, id } = await submit({ fail: 'no' })
      await ended(path)
      assert.equal((await ask('POST', `${path}/retry`)).status, 202)
      assert.equal((await ended(path)).status, 'failed')
      assert.equal((await queue.getJobs()).filter((job) => job?.id?.startsWith(`${id}.`)).length, 2)
    })

    test('a task with the id of a deleted task does not get the result of the old job', async (t) => {
      const { tasks, work } = open(t)
      for (const say of ['first', 'second']) {
        const task = await tasks.submit(work, { say }, { id: `again-${major}` })
        const end = await task.wait({ timeoutMs: 30_000 })
        assert.equal(end?.status === 'completed' && end.result, say)
        await tasks.delete(task.taskId)
      }
    })

    test('a number from the job becomes a percentage, and an object becomes the progress', async (t) => {
      const { submit, ended } = open(t)
      const of = async (progress: unknown) => (await ended((await submit({ progress: [progress] })).path)).progress
      assert.deepEqual(await of(42), { done: 42, total: 100 })
      assert.deepEqual(await of({ done: 3, total: 7, message: 'March', unit: 'months' }), {
        done: 3,
        total: 7,
        message: 'March',
        unit: 'months',
      })
      assert.equal(await of({ step: 'reading' }), undefined)
    })

    test('progress arrives while the job runs', async (t) => {
      const { submit, ended, read } = open(t)
      const gate = randomUUID()
      const { path } = await submit({ progress: [{ done: 1, total: 2 }], gate })
      await eventually(async () => (await read(path)).progress?.done === 1, 30_000)
      await redis.set(gate, 1)
      assert.equal((await ended(path)).status, 'completed')
    })

    test('an option converts any value to progress', async (t) => {
      const { submit, ended } = open(t, { progress: (given) => ({ done: (given as { step: number }).step, total: 5 }) })
      assert.deepEqual((await ended((await submit({ progress: [{ step: 2 }] })).path)).progress, { done: 2, total: 5 })
    })

    test('cancelling a task removes a job that waits', async (t) => {
      const { submit, ask, errors } = open(t, { jobOptions: { delay: 3_600_000 } })
      const { path, id } = await submit({})
      await eventually(() => isState(id, 'delayed'), 30_000)
      assert.equal((await ask('DELETE', path)).status, 200)
      await eventually(async () => await jobOf(id) === undefined, 30_000)
      assert.deepEqual(errors, [])
    })

    test('cancelling a task notifies the application of a running job, whose worker ends it', async (t) => {
      const { submit, ask } = open(t, { cancelActive: (jobId) => redis.publish(`cancel:${queue.name}`, jobId) })
      const { path, id } = await submit({ gate: randomUUID() })
      await eventually(() => isState(id, 'active'), 30_000)
      await ask('DELETE', path)
      await eventually(() => isState(id, 'failed'), 30_000)
    })

    test('a running job continues after a cancel, and the task stays cancelled', async (t) => {
      const { submit, ask, read } = open(t)
      const gate = randomUUID()
      const { path, id } = await submit({ gate })
      await eventually(() => isState(id, 'active'), 30_000)
      await ask('DELETE', path)
      await redis.set(gate, 1)
      await eventually(() => isState(id, 'completed'), 30_000)
      assert.equal((await read(path)).status, 'cancelled')
    })

    test('a waiting job is removed when the time limit of the task is over', async (t) => {
      const { submit, ended } = open(t, { timeoutMs: 300, jobOptions: { delay: 3_600_000 } })
      const { path, id } = await submit({})
      assert.equal((await ended(path)).error.code, 'task_timeout')
      await eventually(async () => await jobOf(id) === undefined, 30_000)
    })

    test('a task whose job was removed fails', async (t) => {
      const { submit, ended, errors } = open(t, { jobOptions: { delay: 3_600_000 } })
      const { path, id } = await submit({})
      await eventually(() => isState(id, 'delayed'), 30_000)
      await (await jobOf(id))?.remove()
      assert.equal((await ended(path)).error.code, 'task_failed')
      assert.match(String(errors[0]), /was removed before it had ended/)
    })

    test('a job that BullMQ rejects fails the task', async (t) => {
      const { submit, ended, errors } = open(t, { jobOptions: { priority: 1e12 } })
      assert.equal((await ended((await submit({})).path)).error.code, 'task_failed')
      assert.match(String(errors[0]), /priority/i)
    })

    test('a task fails if its queue has another job under the new id', async (t) => {
      const other = queueForFile(major, url)
      other.queue.jobsOpts = { deduplication: { id: 'one' } } as never
      await other.queue.add('work', {}, { deduplication: { id: 'one' }, delay: 3_600_000 })
      const { submit, ended, errors } = open(t, { queue: other.queue, events: other.events })
      assert.equal((await ended((await submit({})).path)).error.code, 'task_failed')
      assert.match(String(errors[0]), /has the job 1 in place of a new one/)
    })

    test('a job whose events are lost is found by the next check', async (t) => {
      const deaf = queueForFile(major, url)
      await deaf.events.close()
      const { submit, ended } = open(t, {
        events: Object.assign(Object.create(deaf.events), { name: queue.name }) as never,
      })
      assert.equal((await ended((await submit({ say: 1 })).path)).status, 'completed')
    })

    test('a hundred tasks share the listeners of one QueueEvents', async (t) => {
      const { tasks, work } = open(t)
      const ends = await Promise.all(
        Array.from({ length: 100 }, async (_, say) => (await tasks.submit(work, { say })).wait({ timeoutMs: 60_000 })),
      )
      assert.deepEqual(
        ends.map((end) => end?.status === 'completed' && end.result),
        Array.from({ length: 100 }, (_, n) => n),
      )
      assert.equal(events.listenerCount('completed'), 1)
    })

    test('the workers run each job once', async () => {
      await within(queue.getJobCounts(), 30_000)
      const runs = [...worker.out.matchAll(/^run (\S+)$/gm)].map(([, id]) => id)
      const retried = (await queue.getJobs(['failed'])).filter((job) => job.attemptsMade > 1).map((job) => job.id)
      const once = runs.filter((id) => !retried.includes(id))
      assert.equal(new Set(once).size, once.length)
    })
  })
}
