import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { createTasks, defineTask, taskEndpoints, type Tasks, type TasksOptions } from '../../../src/index.js'
import { operatorEndpoints } from '../../../src/operators/index.js'
import { inject } from '../../../src/testing/index.js'
import { deferred, eventually } from '../../kit/wait.js'

type Settings = Pick<TasksOptions, 'pools'> & { readonly maxRunningPerOwner?: number, readonly attempts?: number }

/** Tasks whose runs note their input, and wait until the test ends them. */
function setUp(t: TestContext, { pools, ...settings }: Settings = {}) {
  const gates = new Map<unknown, () => void>()
  const ran: unknown[] = []
  const work = defineTask({
    name: 'work', ...settings,
    run: async (input: unknown) => {
      ran.push(input)
      const gate = deferred()
      gates.set(input, gate.resolve)
      await gate.promise
      return input
    },
  })
  const parts = memory()
  const tasks = createTasks({ ...parts, definitions: [work], ...pools && { pools }, onError: () => undefined })
  t.after(() => tasks.close({ drainMs: 0 }))
  const submit = (input: unknown, owner: string) => tasks.ownedBy(owner).submit(work, input)
  const end = (input: unknown): void => { gates.get(input)?.() }
  return { tasks, work, ran, submit, end, engine: parts.engine }
}

const reached = async (ran: readonly unknown[], expected: readonly unknown[]): Promise<void> => {
  await eventually(() => ran.length >= expected.length)
  await new Promise((resolve) => { setTimeout(resolve, 20) })
  assert.deepEqual(ran, expected)
}

describe('the limits of running work', () => {
  for (const [title, settings] of Object.entries({
    'maxRunningPerOwner of a definition': { maxRunningPerOwner: 1 },
    'maxRunningPerOwner of the default pool': { pools: { default: { maxRunningPerOwner: 1 } } },
  })) {
    test(`make the tasks of one owner wait by ${title}, and the tasks of other owners begin`, async (t) => {
      const { submit, end, ran } = setUp(t, settings)
      for (const [input, owner] of [[1, 'ann'], [2, 'ann'], [3, 'bob']] as const) await submit(input, owner)
      await reached(ran, [1, 3])
      end(1)
      await reached(ran, [1, 3, 2])
    })

    test(`count synchronous requests in ${title}`, async (t) => {
      const { tasks, work, ran, end } = setUp(t, settings)
      const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'principal' })
      const handler = submit(work)
      const send = (n: number, prefer?: string) => inject(handler, {
        method: 'POST', path: '/work', body: { n }, context: { principal: { subject: 'ann' } },
        headers: { ...prefer && { prefer } },
      })
      const first = send(1)
      await reached(ran, [{ n: 1 }])
      const second = send(2)
      assert.equal((await send(3, 'respond-async')).status, 202)
      await reached(ran, [{ n: 1 }])
      end(ran[0])
      assert.equal((await first).status, 200)
      await eventually(() => ran.length === 2)
      end(ran[1])
      assert.equal((await second).status, 200)
    })
  }

  test('apply maxRunning and startsPer of a pool to the runs that begin in it', async (t) => {
    const { submit, ran, end } = setUp(t, { pools: { default: { maxRunning: 2, startsPer: { count: 2, ms: 50 } } } })
    for (const n of [1, 2, 3]) await submit(n, `owner-${n}`)
    await reached(ran, [1, 2])
    end(1)
    await reached(ran, [1, 2, 3])
  })

  test('throw a TypeError that names an invalid limit', () => {
    const define = (pool: unknown) => () =>
      createTasks({ ...memory(), definitions: [], pools: { default: pool as object } })
    for (const [pool, message] of [
      [{ maxRunning: 0 }, /pools\.default.*maxRunning/s], [{ maxRunningPerOwner: 1.5 }, /maxRunningPerOwner/],
      [{ startsPer: 5 }, /startsPer/], [{ startsPer: { count: 1 } }, /startsPer.*ms/s],
      [{ startsPer: { count: 10_001, ms: 1 } }, /count/], [{ concurrency: 2 }, /option concurrency/],
    ] as const) assert.throws(define(pool), message)
    assert.throws(() => defineTask({ name: 'x', maxRunningPerOwner: 0, run: () => 1 }), /maxRunningPerOwner/)
  })

  test('are the only options of the default pool that a message suggests', () => {
    for (const pool of [undefined, 5, { concurency: 5 }, { max: 1 }]) assert.throws(
      () => createTasks({ ...memory(), definitions: [], pools: { default: pool as object } }),
      ({ message }: Error) => message.includes('pools.default') && message.includes('maxRunning') && !message.includes('concurrency'),
    )
  })
})

describe('a paused pool', () => {
  test('begins no run, is shown as paused in pools and health, and begins its tasks after resume', async (t) => {
    const { tasks, submit, ran } = setUp(t)
    await submit(1, 'ann')
    await reached(ran, [1])
    await tasks.pause('default')
    await submit(2, 'ann')
    await reached(ran, [1])
    assert.deepEqual(
      (await tasks.pools()).map(({ pool, isPaused, waiting }) => [pool, isPaused, waiting]),
      [['default', true, 1]],
    )
    const { ok, pausedPools } = await tasks.health()
    assert.deepEqual([ok, pausedPools], [true, ['default']])
    await tasks.resume('default')
    await reached(ran, [1, 2])
    assert.deepEqual((await tasks.health()).pausedPools, [])
  })

  test('makes synchronous requests wait', async (t) => {
    const { tasks, work, ran, end } = setUp(t)
    const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
    await tasks.pause('default')
    const response = inject(submit(work), { method: 'POST', path: '/work', body: 1 })
    await reached(ran, [])
    await tasks.resume('default')
    await reached(ran, [1])
    end(1)
    assert.equal((await response).status, 200)
  })

  test('must be one of pools', async (t) => {
    const { tasks } = setUp(t)
    await assert.rejects(tasks.pause('heavy'), /tasks\.pause.*default.*heavy/)
    await assert.rejects(tasks.resume(undefined as never), TypeError)
  })

  test('can be paused and resumed only by operators', async (t) => {
    const { tasks } = setUp(t)
    const { pause, pools } = operatorEndpoints(tasks, {
      statusPath: '/admin/tasks/{id}', operator: ({ context }) => context.user?.name === 'root',
    })
    const ask = (method: string, query: string, name = 'root') => (
      inject(pause, { method, path: `/admin/pause?${query}`, context: { user: { name } } })
    )
    assert.equal((await ask('PUT', 'pool=default', 'ann')).status, 403)
    for (const method of ['PUT', 'PUT']) assert.equal((await ask(method, 'pool=default')).status, 204)
    const shown = await inject(pools, { path: '/admin/pools', context: { user: { name: 'root' } } })
    assert.deepEqual(await shown.json<{ items: object[] }>(), {
      items: [{ pool: 'default', isPaused: true, running: 0, waiting: 0, delayed: 0 }],
    })
    assert.equal((await ask('DELETE', 'pool=default')).status, 204)
    assert.deepEqual((await tasks.health()).pausedPools, [])
    for (const query of ['', 'pool=heavy', 'pool=default&pool=default', 'pool=default&x=1']) {
      assert.equal((await (await ask('PUT', query)).json<{ code: string }>()).code, 'invalid_query')
    }
  })
})

describe('a business key', () => {
  const submits = (tasks: Tasks, work: Parameters<Tasks['submit']>[0]) => (
    (input: unknown, options: object = {}) => tasks.submit(work, input, { unique: 'invoice-42', ...options })
  )

  test('returns the unfinished task of its definition and owner', async (t) => {
    const { tasks, work, end, ran } = setUp(t)
    const submit = submits(tasks, work)
    const first = await submit(1)
    const second = await submit(2)
    assert.deepEqual([first.created, second.created, second.replaced], [true, false, false])
    assert.equal(second.taskId, first.taskId)
    assert.equal((await submit(3, { owner: 'ann' })).created, true)
    await eventually(() => ran.includes(1))
    end(1)
    await first.wait({ timeoutMs: 60_000 })
    assert.equal((await submit(4)).created, true)
  })

  test('gives a task that has not begun the last input, with ifExists: \'replace\'', async (t) => {
    const { tasks, work, ran } = setUp(t)
    const submit = submits(tasks, work)
    const options = { ifExists: 'replace', delayMs: 30 }
    const first = await submit(1, options)
    const last = await submit(2, options)
    assert.deepEqual([last.created, last.replaced, last.taskId], [false, true, first.taskId])
    await reached(ran, [2])
    const late = await submit(3, options)
    assert.deepEqual([late.created, late.replaced, late.taskId], [false, false, first.taskId])
    await reached(ran, [2])
  })

  test('must be a text of 1 to 512 characters, and ifExists has two values', async (t) => {
    const { tasks, work } = setUp(t)
    const submit = submits(tasks, work)
    for (const unique of ['', 'x'.repeat(513), 5, null]) {
      await assert.rejects(submit(1, { unique }), /unique/)
    }
    await assert.rejects(submit(1, { ifExists: 'ignore' }), /ifExists/)
    await assert.rejects(tasks.submit(work, 1, { ifExists: 'replace' } as object), /ifExists needs it/)
  })
})
