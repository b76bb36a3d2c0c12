// What docs/guide/tenants.md shows: it takes the regions from here. Three users of two tenants, behind Express.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test } from 'node:test'
import express from 'express'
import { createTasks, defineTask, router, taskEndpoints, type HttpRequest } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { operatorEndpoints } from 'longhaul/operators'
import { listen } from '../../kit/listen.js'

// #region server
interface User { readonly id: string, readonly company: string, readonly isOperator: boolean }
type Request = HttpRequest<{ user?: User }>

const report = defineTask({
  name: 'report',
  maxPerOwner: 2, // unfinished reports of one company
  run: (_input, { owner, tenant }) => ({ title: `A report for ${owner} of ${tenant}` }),
})
const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status, list } = taskEndpoints(tasks, {
  statusPath: '/tasks/{id}',
  owner: ({ context: { user } }: Request) => user && { owner: user.id, tenant: user.company },
})
const operators = operatorEndpoints(tasks, {
  statusPath: '/admin/tasks/{id}',
  operator: ({ context: { user } }: Request) => user?.isOperator === true,
})

const app = express()
app.use((req, _res, next) => { // in place of your authentication: "ann@acme"
  const [id = '', company = ''] = String(req.headers.authorization).split('@')
  Object.assign(req, { user: { id, company, isOperator: id === 'root' } })
  next()
})
app.use(toNode(router({
  'POST /reports': submit(report, { respond: 'always' }),
  'GET /tasks': list,
  'GET|DELETE /tasks/{id}': status,
  'GET /admin/tasks': operators.list, // ?tenant=acme, or ?tenant=acme&owner=ann
})))
// #endregion

interface Body {
  readonly taskId: string
  readonly result?: object
  readonly items?: readonly { readonly owner: string, readonly tenant: string }[]
}

test('The server of tenants.md shows each user the own tasks, and operators those of a tenant', async (t) => {
  const { url, close } = await listen(createServer(app))
  t.after(async () => {
    await close()
    await tasks.close()
  })
  const ask = async (user: string, method: string, path: string) => {
    const response = await fetch(new URL(path, url), {
      method, headers: { 'authorization': user, 'content-type': 'application/json' },
      ...method === 'POST' && { body: '{}' },
    })
    return { status: response.status, json: await response.json() as Body }
  }
  await tasks.pause('default')
  const { json: { taskId }, status: first } = await ask('ann@acme', 'POST', '/reports')
  assert.deepEqual([first, (await ask('bob@acme', 'POST', '/reports')).status], [202, 202])
  assert.equal((await ask('ann@bolt', 'POST', '/reports')).status, 202)
  assert.equal((await ask('ann@acme', 'POST', '/reports')).status, 429)
  await tasks.resume('default')
  await tasks.wait(taskId, { timeoutMs: 20_000 })
  const { json } = await ask('ann@acme', 'GET', `/tasks/${taskId}`)
  assert.deepEqual(json.result, { title: 'A report for ann of acme' })
  for (const stranger of ['ann@bolt', 'bob@acme']) {
    assert.equal((await ask(stranger, 'GET', `/tasks/${taskId}`)).status, 404)
    assert.equal((await ask(stranger, 'DELETE', `/tasks/${taskId}`)).status, 404)
    assert.equal((await ask(stranger, 'GET', '/tasks')).json.items?.length, 1)
  }
  const { json: { items = [] } } = await ask('root@us', 'GET', '/admin/tasks?tenant=acme')
  assert.deepEqual(items.map(({ owner, tenant }) => [owner, tenant]), [['bob', 'acme'], ['ann', 'acme']])
  assert.equal((await ask('root@us', 'GET', '/admin/tasks?tenant=acme&owner=ann')).json.items?.length, 1)
  assert.equal((await ask('ann@acme', 'GET', '/admin/tasks?tenant=acme')).status, 403)
})
