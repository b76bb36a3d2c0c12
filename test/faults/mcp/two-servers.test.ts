// Two MCP servers on one database, behind a proxy that gives each request to the next one. One of them is killed.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { resultFromTaskOutcome } from '@modelcontextprotocol/ext-tasks/client'
import { openSession, rpc, TASKS, withCapabilities } from '../../http/mcp/kit.js'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { eventually } from '../../kit/wait.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { program } from '../../servers/program.js'
import { redisUrl } from '../../servers/redis-server.js'
import { sqliteUrl } from '../../servers/sqlite.js'

stopAfterwards()
const databases = { SQLite: await sqliteUrl(), Redis: await redisUrl(), PostgreSQL: await postgresUrl() }
let names = 0

/** Starts two servers, and a proxy in front. `used` has the servers of the requests, in turn. */
async function cluster(t: TestContext, database: string) {
  const name = `mcp_${String(process.pid)}_${String(++names)}`
  const start = async () => {
    const server = new ServerProcess(
      process.execPath,
      [...program(join(import.meta.dirname, 'server.ts')), database, name],
      {},
    )
    return { server, url: await server.url() }
  }
  const backends = await Promise.all([start(), start()])
  const used: string[] = []
  const proxy = createServer((request, response) => {
    const backend = backends.shift() ?? assert.fail('No server is left')
    backends.push(backend)
    used.push(backend.url)
    const onward = send(backend.url, { method: request.method, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    onward.on('error', () => { response.destroy() })
    request.pipe(onward)
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  t.after(() => {
    proxy.closeAllConnections()
    proxy.close()
  })
  const url = `http://127.0.0.1:${String((proxy.address() as AddressInfo).port)}/mcp`
  /** Kills the server at `dead`, without a moment to clean up. */
  const kill = async (dead: string) => {
    const index = backends.findIndex((backend) => backend.url === dead)
    const [backend] = backends.splice(index, 1)
    backend?.server.child.kill('SIGKILL')
    await backend?.server.exited
  }
  return { url, used, kill, backends }
}

for (const [database, databaseUrl] of Object.entries(databases)) {
  describe(`Two MCP servers on ${database}`, () => {
    test('serve one handle in turn, through its question and its result', async (t) => {
      const { url, used } = await cluster(t, databaseUrl)
      const session = await openSession(url, 'ann', () => ({ send: true }))
      const { outcome } = await (await session.callTool('send-mail', { to: 'bob' })).settle()
      assert.deepEqual((resultFromTaskOutcome(outcome) as { structuredContent?: unknown }).structuredContent, {
        sent: true,
      })
      assert.equal(new Set(used).size, 2)
      await session.close()
    })

    test('keep a handle when the server that created it is killed', async (t) => {
      const { url, kill, backends, used } = await cluster(t, databaseUrl)
      const about = (method: string, params: object, owner = 'ann') => (
        rpc(url, owner, { method, params: withCapabilities({ ...params }, TASKS) })
      )
      const call = (name: string, args: object) => about('tools/call', { name, arguments: args })
      const running = String((await call('report', { year: 2026, ms: 2000 })).result?.['taskId'])
      const giver = used.at(-1) ?? ''
      const asking = String((await call('send-mail', { to: 'bob' })).result?.['taskId'])
      const statusOf = async (taskId: string) => (await about('tasks/get', { taskId })).result?.['status']
      await eventually(async () => await statusOf(asking) === 'input_required', 30_000, 'it asks')
      await kill(giver)
      assert.equal(backends.length, 1)
      assert.equal((await about('tasks/get', { taskId: running }, 'eve')).error?.code, -32_602)
      await about('tasks/update', {
        taskId: asking,
        inputResponses: { approve: { action: 'accept', content: { send: false } } },
      })
      for (const taskId of [running, asking]) {
        await eventually(async () => await statusOf(taskId) === 'completed', 60_000, `${taskId} is completed`)
      }
      assert.equal(await statusOf(running), 'completed')
    })
  })
}
