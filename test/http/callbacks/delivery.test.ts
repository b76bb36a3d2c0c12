import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { memory } from '../../../adapters/memory/index.js'
import { acceptTask } from '../../../src/tasks/core/accept-task.js'
import { createTasks, coreOf } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { receiver, SECRET, site } from '../kit/callbacks.js'
import { eventually } from '../../kit/wait.js'

const OTHER = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD'

test('many requests at once cause no warning of a leak of listeners', async (t) => {
  const warnings: string[] = []
  const onWarning = ({ name }: Error): void => { warnings.push(name) }
  process.on('warning', onWarning)
  t.after(() => process.off('warning', onWarning))
  const waiting: (() => void)[] = []
  const { url, seen } = await receiver(t, (res) => { waiting.push(() => res.end()) })
  const { submit, settled } = site(t, { maxInFlight: 20, maxPerHost: 20, maxPerOwner: 20, timeoutMs: 60_000 })
  const ids = await Promise.all(Array.from({ length: 15 }, () => submit(url)))
  await eventually(() => seen.length === 15)
  for (const end of waiting) end()
  for (const id of ids) assert.equal((await settled(id)).state, 'delivered')
  assert.deepEqual(warnings, [])
})

describe('a callback', () => {
  test('SPEC 4.8, 6.1: is a POST that the standardwebhooks package verifies, with the result', async (t) => {
    const { url, seen } = await receiver(t)
    const { submit, settled, tasks } = site(t)
    const id = await submit(url)
    const callback = await settled(id)
    assert.equal(callback.state, 'delivered')
    assert.deepEqual([callback.attempts, callback.lastStatus, seen.length], [1, 200, 1])
    const [first] = seen
    assert.ok(first, 'nothing was received')
    assert.deepEqual(
      [first.method, first.path, first.headers['content-type']],
      ['POST', '/hook?a=1', 'application/json'],
    )
    const payload = new Webhook(SECRET).verify(first.body, first.headers) as { timestamp: string }
    const view = await tasks.get(id)
    assert.deepEqual(payload, {
      type: 'task.completed',
      timestamp: view?.finishedAt?.toISOString(),
      data: { taskId: id, status: 'completed', result: { message: 'ünïcode "quoted"' } },
    })
    assert.throws(() => new Webhook(OTHER).verify(first.body, first.headers), 'another secret must not verify')
    assert.throws(() => new Webhook(SECRET).verify(`${first.body} `, first.headers), 'other bytes must not verify')
  })

  test('has the masked error of a failed task, and the status of a cancelled task', async (t) => {
    const { url, seen } = await receiver(t)
    const { submit, settled, tasks } = site(t)
    await settled(await submit(url, { fail: true }))
    const id = await submit(url, { ms: 60_000 })
    await eventually(async () => (await tasks.get(id))?.startedAt !== undefined)
    assert.equal((await tasks.get(id))?.callback?.state, 'waiting')
    const outcome = await tasks.cancel(id)
    assert.equal(outcome?.status, 'cancelled')
    await settled(id)
    const [failed, cancelled] = seen.map(({ body }) => JSON.parse(body) as { type: string, data: { error: unknown } })
    assert.deepEqual(
      [failed?.type, failed?.data.error],
      ['task.failed', { code: 'task_failed', message: 'The task failed.' }],
    )
    assert.equal(cancelled?.type, 'task.cancelled')
    assert.deepEqual(cancelled.data.error, { code: 'task_cancelled', message: 'The task was cancelled.' })
    assert.equal(seen.length, 2)
  })

  test('is signed with each secret of its owner while they are being changed', async (t) => {
    const { url, seen } = await receiver(t)
    const { submit, settled } = site(t, { secrets: (owner) => (owner === 'ann' ? [OTHER, SECRET] : [OTHER]) })
    await settled(await submit(url, {}, 'ann'))
    await settled(await submit(url, {}, 'bob'))
    const [ann, bob] = seen
    assert.ok(ann && bob, 'two were expected')
    for (const secret of [SECRET, OTHER]) new Webhook(secret).verify(ann.body, ann.headers)
    new Webhook(OTHER).verify(bob.body, bob.headers)
    assert.throws(() => new Webhook(SECRET).verify(bob.body, bob.headers), 'one receiver must not forge for another')
  })

  test('keeps its id and its bytes over retries and redelivery, and shows its number of attempts', async (t) => {
    const { url, seen } = await receiver(t, (res, nth) => { res.writeHead(nth < 3 ? 500 : 204).end() })
    const { submit, settled, tasks } = site(t)
    const id = await submit(url)
    const { state, attempts, lastStatus } = await settled(id)
    assert.deepEqual([state, attempts, lastStatus], ['delivered', 3, 204])
    assert.equal(await tasks.redeliver(id), true)
    await eventually(() => seen.length === 4)
    await eventually(async () => (await tasks.get(id))?.callback?.attempts === 4)
    assert.equal((await settled(id)).state, 'delivered')
    assert.equal(new Set(seen.map(({ headers }) => headers['webhook-id'])).size, 1)
    assert.equal(new Set(seen.map(({ body }) => body)).size, 1)
    for (const { body, headers } of seen) new Webhook(SECRET).verify(body, headers)
    assert.equal(await tasks.redeliver('nobody'), false)
  })

  test('is given up after its attempts, and can be repeated by code', async (t) => {
    let status = 500
    const { url, seen } = await receiver(t, (res) => { res.writeHead(status).end() })
    const { submit, settled, tasks } = site(t)
    const id = await submit(url)
    const failed = await settled(id)
    assert.deepEqual([failed.state, failed.attempts, failed.fault, failed.lastStatus], ['failed', 3, 'status', 500])
    status = 200
    await tasks.redeliver(id)
    await eventually(async () => (await tasks.get(id))?.callback?.state === 'delivered')
    assert.equal(seen.length, 4)
  })

  test('changes the ETag of its task at each step, even after the task has ended', async (t) => {
    const { url } = await receiver(t)
    const { submit, settled, tasks } = site(t)
    const id = await submit(url)
    const versions = new Set<number>()
    await eventually(async () => {
      const task = await coreOf(tasks).read(id)
      if (task) versions.add(task.version)
      return JSON.stringify(task?.details).includes('"delivered"') === true
    })
    await settled(id)
    assert.ok(versions.size > 1, `one version only: ${[...versions].join()}`)
  })
})

describe('tasks without callbacks', () => {
  const work = defineTask({ name: 'work', run: () => 1 })
  test('reject a callback URL, and never ignore it', async (t) => {
    const { engine, store } = memory()
    const tasks = createTasks({ engine, store, definitions: [work] })
    t.after(() => tasks.close({ drainMs: 0 }))
    await assert.rejects(
      tasks.submit(work, 1, { callbackUrl: 'https://example.com/' }),
      /needs the option callbacks of createTasks/,
    )
    await assert.rejects(
      async () =>
        acceptTask(coreOf(tasks), {
          definition: work,
          input: 1,
          owner: undefined,
          caller: undefined,
          callbackUrl: 'https://example.com/',
        }),
      /needs the option callbacks of createTasks/,
    )
    assert.throws(
      () => taskEndpoints(tasks, { statusPath: '/s/{id}', owner: 'anyone', callback: (body) => body['callbackUrl'] }),
      /needs the option callbacks of createTasks/,
    )
    const { submit } = taskEndpoints(tasks, { statusPath: '/s/{id}', owner: 'anyone' })
    assert.throws(
      () => submit(work, { callback: (body) => body['callbackUrl'] }),
      /needs the option callbacks of createTasks/,
    )
    assert.throws(() => submit(work, { callback: 'callbackUrl' }), /needs the option callbacks of createTasks/)
    assert.throws(() => submit(work, { callback: '' }), /callback/)
  })

  test('reject a submission for an owner without a usable secret', async (t) => {
    for (const secrets of [[], ['whsec_%%%'], ['']]) {
      const { submit } = site(t, { secrets: () => secrets })
      await assert.rejects(submit('http://127.0.0.1:1/'), TypeError, secrets.join())
    }
  })
})
