import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { after, test } from 'node:test'
import { callbacks } from '../../../src/callbacks/index.js'
import { MemoryQueue, MemoryStore } from '../../../adapters/memory/index.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'

// Timers of the library let a process end.
const hold = setInterval(() => undefined, 60_000)
after(() => { clearInterval(hold) })

const work = defineTask({ name: 'work', run: () => 1 })

for (const [title, ownQueue] of [['the queue of the tasks', false], ['a queue of their own', true]] as const) {
  test(`a callback that waits for its retry when tasks close is interrupted, and nothing is reported: ${title}`, async () => {
    const sent = new EventEmitter()
    let requests = 0
    const heard: unknown[] = []
    const tasks = createTasks({
      store: new MemoryStore(), queue: new MemoryQueue(), definitions: [work], onError: (error) => { heard.push(error) },
      callbacks: callbacks({
        secrets: () => ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], attempts: 5, backoff: { type: 'fixed', delayMs: 50 },
        sender: { check: () => undefined, send: async () => {
          requests++
          sent.emit('sent')
          return { status: 500 }
        } },
        ...(ownQueue && { queue: new MemoryQueue() }),
      }),
    })
    const { taskId: id } = await tasks.submit(work, 1, { callbackUrl: 'https://example.com/' })
    await once(sent, 'sent')
    await tasks.close({ drainMs: 1000 })
    const { state, attempts, fault, lastStatus } = (await tasks.get(id))?.callback ?? {}
    assert.deepEqual({ state, attempts, fault, lastStatus }, { state: 'failed', attempts: requests, fault: 'interrupted', lastStatus: 500 })
    assert.deepEqual(heard, [])
  })
}
