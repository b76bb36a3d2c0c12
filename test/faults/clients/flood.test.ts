import assert from 'node:assert/strict'
import { Agent, createServer, request } from 'node:http'
import { test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { toNode } from '../../../adapters/node/index.js'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { eventually } from '../../kit/wait.js'
import { listen } from '../../kit/listen.js'

const SUBMISSIONS = 10_000
const CONNECTIONS = 200

test('10,000 submissions with room for 1,000 get a 202 and complete, or get a 503 with Retry-After', async (t) => {
  const { engine, store } = memory({ maxUnfinished: 1000 })
  const failures: unknown[] = []
  let runs = 0
  const work = defineTask({
    name: 'work',
    maxPerOwner: Infinity,
    run: async () => {
      runs++
      await new Promise((resolve) => {
        setTimeout(resolve, 5)
      })
    },
  })
  const tasks = createTasks({
    engine,
    store,
    definitions: [work],
    concurrency: 20,
    onError: (error) => {
      failures.push(error)
    },
  })
  const { submit } = taskEndpoints(tasks, { statusPath: '/s/{id}', owner: 'anyone' })
  // A full engine is a 503, which the framework's onError receives.
  const server = createServer(
    toNode(submit(work), {
      onError: (error) => {
        if ((error as { code?: string }).code !== 'queue_full') failures.push(error)
      },
    }),
  )
  const { port, close } = await listen(server)
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  t.after(async () => {
    agent.destroy()
    await close()
    await tasks.close({ drainMs: 0 })
    await store.close()
  })

  const post = () =>
    new Promise<{ status: number; retryAfter: string | undefined; text: string }>((resolve, reject) => {
      const sent = request(
        {
          port,
          host: '127.0.0.1',
          agent,
          method: 'POST',
          path: '/work',
          headers: { 'content-type': 'application/json', 'prefer': 'respond-async' },
        },
        (answer) => {
          let text = ''
          answer
            .setEncoding('utf8')
            .on('data', (chunk: string) => {
              text += chunk
            })
            .on('end', () => {
              resolve({ status: answer.statusCode ?? 0, retryAfter: answer.headers['retry-after'], text })
            })
            .on('error', reject)
        },
      )
      sent.on('error', reject).end('{"a":1}')
    })

  let left = SUBMISSIONS
  const accepted: string[] = []
  let refused = 0
  await Promise.all(Array.from({ length: CONNECTIONS }, async () => {
    while (left-- > 0) {
      const { status, retryAfter, text } = await post()
      assert.match(retryAfter ?? '', /^[0-9]+$/)
      if (status === 202) accepted.push((JSON.parse(text) as { taskId: string }).taskId)
      else {
        assert.deepEqual([status, (JSON.parse(text) as { code: string }).code], [503, 'queue_full'])
        refused++
      }
    }
  }))
  assert.equal(accepted.length + refused, SUBMISSIONS)
  assert.equal(new Set(accepted).size, accepted.length)
  assert.ok(accepted.length >= 1000 && refused > 0, `${String(accepted.length)} accepted`)

  await eventually(() => engine.usage().unfinished === 0, 90_000)
  for (const id of accepted) assert.equal((await tasks.get(id))?.status, 'completed')
  assert.equal(runs, accepted.length, 'each once, and none of the refused')
  assert.deepEqual([engine.usage().tasks, store.usage().entries], [accepted.length, 0], 'the refused left nothing')
  assert.deepEqual(failures, [])
  assert.deepEqual(await tasks.health(), { ok: true, pausedPools: [], running: 0, waiting: 0 })
})
