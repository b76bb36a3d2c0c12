// The client and tasks that ask, against a real server.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { describe, test, type TestContext } from 'node:test'
import { createTasks, defineTask, jsonSchema, router, taskEndpoints } from 'longhaul'
import { createClient } from 'longhaul/client'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { eventually, keepAlive } from '../../kit/wait.js'
import { listen } from '../../kit/listen.js'

const mail = defineTask({
  name: 'mail', asks: { approve: jsonSchema<{ send: boolean }>({ type: 'object', required: ['send'] }) },
  run: async (_input, { ask }) => ask('approve', { message: 'Send it?' }),
})

async function setUp(t: TestContext, options: { readonly events?: boolean } = {}) {
  keepAlive(t)
  const tasks = createTasks({ ...memory(), definitions: [mail] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const server = createServer(
    toNode(
      router({
        'POST /mails': endpoints.submit(mail),
        'GET|DELETE /tasks/{id}': endpoints.status,
        'POST /tasks/{id}/input': endpoints.input,
      }),
    ),
  )
  const { url, close } = await listen(server)
  t.after(async () => {
    await close()
    await tasks.close({ drainMs: 0 })
  })
  return { tasks, api: createClient({ baseUrl: url, poll: { baseMs: 10 }, ...options }) }
}

for (const events of [true, false]) {
  describe(`The client ${events ? 'with events' : 'that polls'}`, () => {
    test('shows the question, and sends the answer of onInput', async (t) => {
      const { api } = await setUp(t, { events })
      const task = await api.submit('/mails', {})
      const asked: unknown[] = []
      const result = await task.result({
        onInput: async (inputs) => {
          asked.push(inputs['approve']?.message)
          return { approve: { send: true } }
        },
      })
      assert.deepEqual([result, asked], [{ send: true }, ['Send it?']])
    })

    test('waits for the answer of somebody else', async (t) => {
      const { api, tasks } = await setUp(t, { events })
      const task = await api.submit('/mails', {})
      const seen: string[] = []
      const result = task.result({ onProgress: ({ status }) => { seen.push(status) } })
      await eventually(() => seen.includes('input_required'))
      await tasks.answer(task.taskId ?? '', { approve: { send: false } })
      assert.deepEqual(await result, { send: false })
    })

    test('continues if somebody else has answered before', async (t) => {
      const { api, tasks } = await setUp(t, { events })
      const task = await api.submit('/mails', {})
      const result = await task.result({
        onInput: async () => {
          await tasks.answer(task.taskId ?? '', { approve: { send: false } })
          return { approve: { send: true } }
        },
      })
      assert.deepEqual(result, { send: false })
    })
  })
}

describe('answer of the client', () => {
  test('resolves with the status, and resolves again for the same answer', async (t) => {
    const { api } = await setUp(t)
    const task = await api.submit('/mails', {})
    await eventually(async () => (await task.status()).status === 'input_required')
    const now = await task.status()
    assert.ok(
      now.status === 'input_required' && Date.parse(now.inputs['approve']?.expiresAt ?? '') > Date.now(),
      'there is no question',
    )
    await task.answer({ approve: { send: true } })
    await task.answer({ approve: { send: true } })
    await assert.rejects(task.answer({ approve: { send: false } }), { code: 'already_answered', status: 409 })
    assert.deepEqual(await task.result(), { send: true })
  })

  test('rejects an answer that the server rejects', async (t) => {
    const { api } = await setUp(t)
    const task = await api.submit('/mails', {})
    await eventually(async () => (await task.status()).status === 'input_required')
    await assert.rejects(task.answer({ approve: {} }), { code: 'invalid_input' })
    await assert.rejects(task.answer({ other: 1 }), { code: 'unknown_input' })
  })
})
