import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { McpServer as OldServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { createTasks, defineTask, jsonSchema } from 'longhaul'
import { mcpTasks, mcpTool, type McpTasksOptions } from 'longhaul/mcp'
import { memory } from 'longhaul/memory'
import { keepAlive } from '../../kit/wait.js'

const EXTENSION = 'io.modelcontextprotocol/tasks'
const _meta = { 'io.modelcontextprotocol/clientCapabilities': { extensions: { [EXTENSION]: {} } } }

const add = defineTask({
  name: 'add',
  input: jsonSchema<{ a: number; b: number }>({
    type: 'object',
    required: ['a', 'b'],
    properties: { a: { type: 'number' }, b: { type: 'number' } },
  }),
  run: ({ a, b }) => a + b,
})
const whoami = defineTask({ name: 'whoami', run: (_input, { context }: { context: unknown }) => ({ context }) })

function setUp(t: TestContext, options: Partial<McpTasksOptions> = {}) {
  keepAlive(t)
  const tasks = createTasks({ ...memory(), definitions: [add, whoami] })
  t.after(() => tasks.close({ drainMs: 0 }))
  const mcp = mcpTasks(tasks, { tools: [mcpTool(add), mcpTool(whoami)], owner: 'anyone', ...options })
  const send = (method: string, params: object, request?: Parameters<typeof mcp.handle>[1]) => (
    mcp.handle({ jsonrpc: '2.0', id: 'x', method, params }, request)
  )
  return { tasks, mcp, send }
}

describe('handle', () => {
  test('returns the result of a tool, and the id of the request', async (t) => {
    const { send } = setUp(t)
    assert.deepEqual(await send('tools/call', { name: 'add', arguments: { a: 1, b: 2 } }), {
      jsonrpc: '2.0', id: 'x', result: { resultType: 'complete', content: [{ type: 'text', text: '3' }] },
    })
  })

  test('returns a handle that tasks/get knows, to a client with the extension', async (t) => {
    const { send } = setUp(t)
    const { result: { taskId } = {} } =
      (await send('tools/call', { name: 'add', arguments: { a: 1, b: 2 }, _meta })) ?? {}
    const response = await send('tasks/get', { taskId, _meta })
    assert.equal(response?.result?.['taskId'], taskId)
    assert.equal(response?.result?.['resultType'], 'complete')
  })

  test('returns undefined for a message that is not about the tools', async (t) => {
    const { mcp, send } = setUp(t)
    for (const method of ['tools/list', 'tasks/list', 'tasks/result', 'ping', 'toString'])
      assert.equal(await send(method, {}), undefined)
    assert.equal(await send('tools/call', { name: 'other' }), undefined)
    for (const message of [
      undefined,
      null,
      'x',
      [],
      { jsonrpc: '2.0', method: 'tasks/get', params: { taskId: 'x', _meta } },
    ]) {
      assert.equal(await mcp.handle(message), undefined)
    }
  })

  test('returns an error that names the extension to a client without it', async (t) => {
    const { send } = setUp(t)
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
      assert.deepEqual((await send(method, { taskId: 'x' }))?.error, {
        code: -32_021, message: 'Missing required client capability',
        data: { requiredCapabilities: { extensions: { [EXTENSION]: {} } } },
      })
    }
  })

  test('returns an error for an invalid id', async (t) => {
    const { send } = setUp(t)
    for (const taskId of [undefined, 1, '', '../x', 'a'.repeat(500)]) {
      assert.deepEqual((await send('tasks/get', { taskId, _meta }))?.error, {
        code: -32_602,
        message: 'Task not found',
      })
    }
  })

  test('passes the context of the client to the work', async (t) => {
    const { send } = setUp(t, {
      owner: (authInfo) => authInfo?.clientId,
      context: (authInfo) => ({ tenant: authInfo?.extra?.['tenant'] }),
    })
    const authInfo = { clientId: 'ann', scopes: [], extra: { tenant: 'acme' } }
    const response = await send('tools/call', { name: 'whoami' }, { authInfo })
    assert.deepEqual(response?.result?.['structuredContent'], { context: { tenant: 'acme' } })
  })

  test('rejects a client without an owner', async (t) => {
    const { send } = setUp(t, { owner: () => undefined })
    assert.deepEqual((await send('tools/call', { name: 'add' }))?.error, {
      code: -32_602,
      message: 'Authentication is required',
    })
  })

  test('masks an error of the application, and reports it', async (t) => {
    const seen: unknown[] = []
    const { send } = setUp(t, { owner: () => { throw new Error('secret') }, onError: (error) => { seen.push(error) } })
    const { error } = await send('tools/call', { name: 'add' }) ?? {}
    assert.equal(error?.['code'], -32_603)
    assert.doesNotMatch(JSON.stringify(error), /secret/)
    assert.deepEqual(seen.map(String), ['Error: secret'])
  })
})

describe('mcpTool and mcpTasks', () => {
  test('list a tool with the schema of its input', (t) => {
    const { mcp } = setUp(t, {
      tools: [mcpTool(add, { name: 'sum', title: 'Sum', annotations: { readOnlyHint: true } })],
    })
    assert.deepEqual(mcp.tools, [
      {
        name: 'sum',
        title: 'Sum',
        annotations: { readOnlyHint: true },
        inputSchema: {
          type: 'object',
          required: ['a', 'b'],
          properties: { a: { type: 'number' }, b: { type: 'number' } },
        },
      },
    ])
    assert.deepEqual(mcp.capabilities, { extensions: { [EXTENSION]: {} } })
  })

  test('throw for an input that is not an object', () => {
    const text = defineTask({ name: 'text', input: jsonSchema<string>({ type: 'string' }), run: () => 1 })
    assert.throws(() => mcpTool(text), /^TypeError: mcpTool\("text"\): the input must be an object/)
  })

  test('throw for a tool or a definition that occurs twice, or that createTasks does not have', (t) => {
    const { tasks } = setUp(t)
    const make = (...tools: McpTasksOptions['tools']) => mcpTasks(tasks, { tools, owner: 'anyone' })
    assert.throws(() => make(mcpTool(add), mcpTool(add, { name: 'sum' })), /the definition add is there twice/)
    assert.throws(() => make(mcpTool(add, { name: 'x' }), mcpTool(whoami, { name: 'x' })), /the name x is there twice/)
    assert.throws(
      () => make(mcpTool(defineTask({ name: 'other', run: () => 1 }))),
      /other is not among the definitions/,
    )
  })

  test('throw for a server of version 1 of the official SDK', (t) => {
    const { mcp } = setUp(t)
    assert.throws(() => {
      mcp.register(new OldServer({ name: 'old', version: '1.0.0' }))
    }, /pass an McpServer of @modelcontextprotocol\/server 2/)
  })

  test('throw without an owner', (t) => {
    const { tasks } = setUp(t)
    assert.throws(() => mcpTasks(tasks, { tools: [mcpTool(add)] } as never), /mcpTasks: the option owner is missing/)
  })
})
