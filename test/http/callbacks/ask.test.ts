// Callbacks of tasks that ask, to a receiver on a real socket.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { callbacks, httpSender, verifyCallback } from 'longhaul/callbacks'
import { createTasks, defineTask, jsonSchema } from 'longhaul'
import { memory } from 'longhaul/memory'
import { eventually, keepAlive } from '../../kit/wait.js'
import { receiver, SECRET, type Receiver } from '../kit/callbacks.js'

const mail = defineTask({
  name: 'mail', asks: { approve: jsonSchema<boolean>({ type: 'boolean' }) },
  run: async (_input: object, { ask }) => ({
    first: await ask('approve', { message: 'Send the first?' }),
    second: await ask('second', { message: 'Send the second?', schema: 'approve', timeoutMs: 3_600_000 }),
  }),
})

function setUp(t: TestContext, delayMs = 50) {
  keepAlive(t)
  const { engine, store } = memory()
  const tasks = createTasks({
    engine, store, definitions: [mail],
    callbacks: callbacks({
      sender: httpSender({ allow: ['127.0.0.1'] }), secrets: () => [SECRET], backoff: { type: 'fixed', delayMs },
    }),
  })
  t.after(() => tasks.close({ drainMs: 0 }))
  const asks = (id: string, key: string) => eventually(async () => {
    const task = await tasks.get(id)
    return task?.status === 'input_required' && key in task.inputs
  })
  return { tasks, asks, engine }
}

const messages = ({ seen }: Receiver) =>
  Promise.all(seen.map(({ headers, body }) => verifyCallback(body, headers, [SECRET])))

describe('The callback of a task that asks', () => {
  test('sends each question and the end, each with its own id', async (t) => {
    const { tasks, asks } = setUp(t)
    const hook = await receiver(t)
    const { taskId } = await tasks.submit(mail, {}, { callbackUrl: hook.url })
    await asks(taskId, 'approve')
    await eventually(async () => (await tasks.get(taskId))?.callback?.state === 'delivered')
    await tasks.answer(taskId, { approve: true })
    await asks(taskId, 'second')
    await eventually(() => hook.seen.length === 2)
    await tasks.answer(taskId, { second: false })
    await eventually(async () => (await tasks.get(taskId))?.callback?.state === 'delivered' && hook.seen.length === 3)
    const told = await messages(hook)
    assert.deepEqual(told.map(({ type }) => type), ['task.input_required', 'task.input_required', 'task.completed'])
    assert.equal(new Set(told.map(({ id }) => id)).size, 3)
    assert.deepEqual(told.map(({ data }) => Object.keys(data.inputs ?? {})), [['approve'], ['second'], []])
    assert.equal(told[0]?.data.inputs?.['approve']?.message, 'Send the first?')
    assert.deepEqual(told[2]?.data.result, { first: true, second: false })
  })

  test('is not sent again once the question is answered', async (t) => {
    const { tasks, asks, engine } = setUp(t, 3_600_000)
    const hook = await receiver(t, (res, nth) => { res.writeHead(nth === 1 ? 500 : 200).end() })
    const { taskId } = await tasks.submit(mail, {}, { callbackUrl: hook.url })
    await asks(taskId, 'approve')
    await eventually(async () => (await tasks.get(taskId))?.callback?.lastStatus === 500)
    assert.ok((await engine.read(taskId))?.callbackAt !== undefined, 'the question is not sent again')
    await tasks.pause('default')
    const answered = await tasks.answer(taskId, { approve: true })
    assert.equal(answered?.callback?.state, 'waiting')
    assert.equal((await engine.read(taskId))?.callbackAt, undefined)
    await tasks.cancel(taskId)
    await eventually(async () => (await tasks.get(taskId))?.callback?.state === 'delivered')
    assert.deepEqual((await messages(hook)).map(({ type }) => type), ['task.input_required', 'task.cancelled'])
  })
})
