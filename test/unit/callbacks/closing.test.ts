import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { after, describe, test, type TestContext } from 'node:test'
import { callbacks, type CallbackReply, type CallbackRequest } from '../../../src/callbacks/index.js'
import { memory } from '../../../adapters/memory/index.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { keepAlive, within } from '../../kit/wait.js'

// Timers of the library let a process end.
keepAlive({ after })

const work = defineTask({ name: 'work', run: () => 1 })

function setUp(t: TestContext, send: (request: CallbackRequest) => Promise<CallbackReply>, delayMs = 900_000) {
  const sent = new EventEmitter()
  const heard: unknown[] = []
  const tasks = createTasks({
    ...memory(), definitions: [work], onError: (error) => { heard.push(error) },
    callbacks: callbacks({
      secrets: () => ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], attempts: 3, backoff: { type: 'fixed', delayMs },
      sender: { check: () => undefined, send: async (request) => {
        sent.emit('sent')
        return send(request)
      } },
    }),
  })
  t.after(() => tasks.close({ drainMs: 0 }))
  const submit = async () => {
    const { taskId } = await tasks.submit(work, 1, { callbackUrl: 'https://example.com/' })
    await once(sent, 'sent')
    return taskId
  }
  const shown = async (id: string) => {
    const { state, attempts, fault, lastStatus, nextAttemptAt } = (await tasks.get(id))?.callback ?? {}
    return { state, attempts, fault, lastStatus, nextAttemptAt }
  }
  return { tasks, heard, submit, shown }
}

describe('a close of tasks in memory', () => {
  test('interrupts a callback that waits too long for its retry, and reports nothing', async (t) => {
    const { tasks, heard, submit, shown } = setUp(t, async () => ({ status: 500 }))
    const id = await submit()
    // The retry is due after this drain time, so close does not wait for it.
    await within(tasks.close({ drainMs: 600_000 }))
    assert.deepEqual(await shown(id), {
      state: 'failed',
      attempts: 1,
      fault: 'interrupted',
      lastStatus: 500,
      nextAttemptAt: undefined,
    })
    assert.deepEqual(heard, [])
  })

  test('sends the retries that are due within the drain time', async (t) => {
    const { tasks, submit, shown } = setUp(t, async () => ({ status: 500 }), 20)
    const id = await submit()
    await tasks.close({ drainMs: 5000 })
    assert.deepEqual(await shown(id), {
      state: 'failed',
      attempts: 3,
      fault: 'status',
      lastStatus: 500,
      nextAttemptAt: undefined,
    })
  })

  test('aborts a callback request that gets no response in time, and interrupts the callback', async (t) => {
    const { tasks, heard, submit, shown } = setUp(t, ({ signal }) => new Promise((_, reject) => {
      signal.addEventListener('abort', () => { reject(signal.reason as Error) })
    }))
    const id = await submit()
    await tasks.close({ drainMs: 20 })
    assert.deepEqual(await shown(id), {
      state: 'failed',
      attempts: 0,
      fault: 'interrupted',
      lastStatus: undefined,
      nextAttemptAt: undefined,
    })
    assert.deepEqual(heard, [])
  })
})
