// `longhaul/mcp` on the official server SDK, by Streamable HTTP, with the clients that its users have.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { resultFromTaskOutcome, type SerializedTaskReference } from '@modelcontextprotocol/ext-tasks/client'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { memory } from 'longhaul/memory'
import { connect, mcpWork, openSession, rpc, serveMcp, TASKS, withCapabilities } from './kit.js'
import { eventually } from '../../kit/wait.js'

const work = mcpWork(memory())
const { url, server } = await serveMcp(work.mcp)
after(async () => {
  server.closeAllConnections()
  server.close()
  await work.tasks.close({ drainMs: 0 })
})

const call = (name: string, args: object, capabilities: object = TASKS, owner = 'ann') => (
  rpc(url, owner, { method: 'tools/call', params: withCapabilities({ name, arguments: args }, capabilities) })
)
const about = (method: string, params: object, owner = 'ann') => (
  rpc(url, owner, { method: `tasks/${method}`, params: withCapabilities({ ...params }, TASKS) })
)
async function handleOf(name: string, args: object): Promise<string> {
  const { result } = await call(name, args)
  assert.equal(result?.['resultType'], 'task')
  return String(result['taskId'])
}
async function reached(taskId: string, status: string): Promise<Record<string, unknown>> {
  let result: Record<string, unknown> = {}
  await eventually(async () => {
    ({ result = {} } = await about('get', { taskId }))
    return result['status'] === status
  }, 20_000, `${taskId} is ${status}`)
  return result
}
const pong = { content: [{ type: 'text', text: 'pong' }] }
const text = '{"year":2026,"months":12}'
const done = { content: [{ type: 'text', text }], structuredContent: { year: 2026, months: 12 } }

describe('A client with the extension', () => {
  test('gets a handle, follows it, and gets the result', async () => {
    const session = await openSession(url, 'ann')
    const execution = await session.callTool('report', { year: '2026', ms: 300 })
    assert.equal(execution.kind, 'task')
    const { outcome } = await execution.settle()
    assert.deepEqual(resultFromTaskOutcome(outcome), { resultType: 'complete', ...done })
    await session.close()
  })

  test('gets the result of a tool that is no task at once', async () => {
    const session = await openSession(url, 'ann')
    const execution = await session.callTool('ping', {})
    assert.equal(execution.kind, 'immediate')
    await session.close()
  })

  test('finds a task again by its serialized reference', async () => {
    const session = await openSession(url, 'ann')
    const execution = await session.callTool('report', { year: 2026, ms: 200 })
    assert.ok(execution.kind === 'task')
    let kept = ''
    // Without close, which cancels the task: a client that has died does not call it.
    await execution.handoff((reference) => { kept = JSON.stringify(reference) })
    const later = await openSession(url, 'ann')
    const { outcome } = await (await later.resumeTask(JSON.parse(kept) as SerializedTaskReference)).settle()
    assert.equal(outcome.status, 'completed')
    await later.close()
  })

  test('sees the progress of the task, and times in whole milliseconds', async () => {
    const taskId = await handleOf('report', { year: 2026, ms: 60_000 })
    await eventually(
      async () => (await about('get', { taskId })).result?.['statusMessage'] === 'January',
      20_000,
      'progress',
    )
    const { statusMessage: _, ...shown } = await reached(taskId, 'working')
    assert.deepEqual(Object.keys(shown).sort(), [
      '_meta', 'createdAt', 'lastUpdatedAt', 'pollIntervalMs', 'resultType', 'status', 'taskId', 'ttlMs',
    ])
    assert.equal(shown['pollIntervalMs'], 50)
    assert.ok(Number.isInteger(shown['ttlMs']) && Number(shown['ttlMs']) > 0)
    await about('cancel', { taskId })
  })

  test('cancels a task, and gets an acknowledgement for each cancel', async () => {
    const taskId = await handleOf('report', { year: 2026, ms: 60_000 })
    for (const _ of [1, 2]) {
      const { result: { _meta, ...result } = {} } = await about('cancel', { taskId })
      assert.deepEqual(result, { resultType: 'complete' })
    }
    assert.equal((await reached(taskId, 'cancelled'))['result'], undefined)
  })

  test('gets an intended error of the work as a result for the model', async () => {
    const { result, status } = await reached(await handleOf('fail', { how: 'known' }), 'completed')
    assert.equal(status, 'completed')
    assert.deepEqual(result, {
      resultType: 'complete',
      content: [{ type: 'text', text: 'The seat is taken.' }],
      isError: true,
    })
  })

  test('gets any other error of the work as a masked JSON-RPC error', async () => {
    const shown = await reached(await handleOf('fail', { how: 'unknown' }), 'failed')
    assert.deepEqual(shown['error'], { code: -32_603, message: 'The task failed.', data: { code: 'task_failed' } })
    assert.equal(shown['result'], undefined)
    assert.doesNotMatch(JSON.stringify(shown), /hunter2/)
  })

  test('gets invalid arguments back as a result for the model, and no task is created', async () => {
    const { result } = await call('report', { year: 'soon' })
    assert.equal(result?.['isError'], true)
    assert.match(JSON.stringify(result['content']), /\/year /)
    assert.equal(result['taskId'], undefined)
  })
})

describe('The handle of another client', () => {
  for (const method of ['get', 'update', 'cancel']) {
    test(`is unknown to tasks/${method}`, async () => {
      const taskId = await handleOf('send-mail', { to: 'bob' })
      const foreign = await about(method, { taskId, inputResponses: {} }, 'eve')
      const unknown = await about(method, { taskId: 'no-such-task', inputResponses: {} }, 'eve')
      assert.deepEqual(foreign.error, { code: -32_602, message: 'Task not found' })
      assert.deepEqual(unknown.error, foreign.error)
      assert.equal((await reached(taskId, 'input_required'))['status'], 'input_required')
    })
  }

  test('is unknown if its task does not belong to a tool', async () => {
    const { taskId } = await work.tasks.submit(work.hidden, undefined, { owner: 'ann' })
    assert.equal((await about('get', { taskId })).error?.code, -32_602)
  })

  test('cannot be read without authentication', async () => {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'accept': 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tasks/get',
        'mcp-name': 'x',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tasks/get',
        params: withCapabilities({ taskId: 'x' }, TASKS),
      }),
    })
    assert.match(await response.text(), /Authentication is required/)
  })
})

describe('A task that asks', () => {
  test('sends its questions as forms, and gets the answers', async () => {
    const forms: Record<string, unknown> = {}
    const session = await openSession(url, 'ann', (message, fields) => {
      forms[message] = Object.fromEntries(Object.entries(fields).map(([name, { type }]) => [name, type]))
      return 'send' in fields ? { send: true } : { answer: message === 'How many?' ? 3 : '[{"tag":"new"}]' }
    })
    const { outcome } = await (await session.callTool('send-mail', { to: 'all' })).settle()
    const result = resultFromTaskOutcome(outcome) as { structuredContent?: unknown }
    assert.deepEqual(result.structuredContent, { sent: true, count: 3, tags: [{ tag: 'new' }] })
    assert.deepEqual(forms, {
      'Send the mail to all?': { send: 'boolean' },
      'How many?': { answer: 'integer' },
      'Which tags?': { answer: 'string' },
    })
    await session.close()
  })

  test('stays as it is after an invalid answer, which gets an error with the reason', async () => {
    const taskId = await handleOf('send-mail', { to: 'bob' })
    await reached(taskId, 'input_required')
    const answer = (send: unknown) =>
      about('update', { taskId, inputResponses: { approve: { action: 'accept', content: { send } } } })
    const { error } = await answer('maybe')
    assert.equal(error?.code, -32_602)
    assert.match(error.message, /\/approve\/send /)
    assert.equal((await reached(taskId, 'input_required'))['status'], 'input_required')
    assert.deepEqual((await answer(false)).result?.['resultType'], 'complete')
    assert.deepEqual(((await reached(taskId, 'completed'))['result'] as Record<string, unknown>)['structuredContent'], {
      sent: false,
    })
  })

  test('takes answers one by one, and ignores answers to other questions', async () => {
    const taskId = await handleOf('send-mail', { to: 'all' })
    await reached(taskId, 'input_required')
    const answer = (inputResponses: object) => about('update', { taskId, inputResponses })
    await answer({ approve: { action: 'accept', content: { send: true } }, other: { action: 'accept', content: {} } })
    const keys = async () => Object.keys((await about('get', { taskId })).result?.['inputRequests'] ?? {})
    await eventually(async () => (await keys()).length === 2, 20_000, 'two questions')
    await answer({
      count: { action: 'accept', content: { answer: 1 } },
      approve: { action: 'accept', content: { send: false } },
    })
    assert.deepEqual(await keys(), ['tags'])
    await answer({ tags: { action: 'accept', content: { answer: '[]' } } })
    assert.deepEqual(((await reached(taskId, 'completed'))['result'] as Record<string, unknown>)['structuredContent'], {
      sent: true,
      count: 1,
      tags: [],
    })
  })

  for (const action of ['decline', 'cancel']) {
    test(`is cancelled if the user chooses ${action}`, async () => {
      const taskId = await handleOf('send-mail', { to: 'bob' })
      await reached(taskId, 'input_required')
      await about('update', { taskId, inputResponses: { approve: { action } } })
      await reached(taskId, 'cancelled')
    })
  }
})

describe('A client without the extension', () => {
  test('gets the result when the work has ended, with the progress meanwhile', async () => {
    const client = await connect(url, 'ann')
    const seen: unknown[] = []
    const result = await client.callTool(
      { name: 'report', arguments: { year: 2026, ms: 300 } },
      {
        onprogress: (progress) => {
          seen.push(progress)
        },
      },
    )
    assert.deepEqual([result.content, result['structuredContent']], [done.content, done.structuredContent])
    assert.deepEqual(seen, [{ progress: 1, total: 12, message: 'January' }])
    await client.close()
  })

  test('gets the result with a protocol before 2026-07-28', async () => {
    const client = await connect(url, 'ann', {})
    assert.deepEqual((await client.callTool({ name: 'report', arguments: { year: 2026 } })).content, done.content)
    assert.deepEqual((await client.callTool({ name: 'ping', arguments: {} })).content, pong.content)
    await client.close()
  })

  test('gets the result with version 1 of the official SDK', async () => {
    const client = new OldClient({ name: 'old', version: '1.0.0' })
    await client.connect(new OldTransport(new URL(url), { requestInit: { headers: { authorization: 'Bearer ann' } } }))
    const result = await client.callTool({ name: 'report', arguments: { year: 2026 } })
    assert.deepEqual(result['structuredContent'], done.structuredContent)
    await client.close()
  })

  for (const method of ['get', 'update', 'cancel']) {
    test(`gets the error that names the extension for tasks/${method}`, async () => {
      const taskId = await handleOf('report', { year: 2026 })
      const { error } = await rpc(url, 'ann', {
        method: `tasks/${method}`,
        params: withCapabilities({ taskId, inputResponses: {} }, {}),
      })
      assert.deepEqual(error, {
        code: -32_021, message: 'Missing required client capability', data: { requiredCapabilities: TASKS },
      })
    })
  }

  test('answers questions in the call that waits', async () => {
    const client = await connect(url, 'ann', {
      versionNegotiation: { mode: 'auto' },
      capabilities: { elicitation: { form: {} } },
    })
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { send: true } }))
    const result = await client.callTool({ name: 'send-mail', arguments: { to: 'bob' } })
    assert.deepEqual(result['structuredContent'], { sent: true })
    await client.close()
  })

  test('gets an error if it cannot show questions, and the task does not wait for an answer', async () => {
    const before = new Set((await work.tasks.ownedBy('dan').list()).items.map(({ taskId }) => taskId))
    assert.equal((await call('send-mail', { to: 'bob' }, {}, 'dan')).error?.code, -32_021)
    const { items } = await work.tasks.ownedBy('dan').list()
    assert.deepEqual(items.filter(({ taskId }) => !before.has(taskId)).map(({ status }) => status), ['cancelled'])
  })

  test('gets the masked error of the work', async () => {
    const { result } = await call('fail', { how: 'unknown' }, {})
    assert.deepEqual([result?.['isError'], result?.['content']], [true, [{ type: 'text', text: 'The task failed.' }]])
  })

  test('cancels the task when it no longer waits', async () => {
    const client = await connect(url, 'carl')
    const controller = new AbortController()
    const waiting = client.callTool(
      { name: 'report', arguments: { year: 2026, ms: 60_000 } },
      { signal: controller.signal },
    )
    const statuses = async () => (await work.tasks.ownedBy('carl').list()).items.map(({ status }) => status)
    await eventually(async () => (await statuses()).includes('processing'), 20_000, 'the task runs')
    controller.abort()
    await assert.rejects(waiting)
    await eventually(async () => (await statuses()).includes('cancelled'), 20_000, 'the task is cancelled')
    await client.close()
  })
})

describe('The server', () => {
  test('lists the tools with the schemas of their tasks, and declares the extension', async () => {
    const client = await connect(url, 'ann')
    const { tools } = await client.listTools()
    assert.deepEqual(tools.map(({ name }) => name), ['ping', 'report', 'fail', 'send-mail'])
    const { inputSchema, title, description, annotations } = tools[1] ?? assert.fail()
    assert.deepEqual(
      [title, description, annotations],
      ['Report', 'Writes the report of a year.', { readOnlyHint: true }],
    )
    assert.deepEqual(Object.keys(inputSchema.properties ?? {}), ['year', 'ms'])
    assert.deepEqual(client.getServerCapabilities()?.extensions, TASKS.extensions)
    await client.close()
  })

  for (const method of ['list', 'result']) {
    test(`does not know tasks/${method}, which the revision has removed`, async () => {
      assert.equal((await about(method, {})).error?.code, -32_601)
    })
  }
})
