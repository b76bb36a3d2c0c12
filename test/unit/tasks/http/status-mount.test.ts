import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { memory } from '../../../../adapters/memory/index.js'
import {
  createTasks, defineTask, router, taskEndpoints, type TaskEndpoints, type Tasks,
} from '../../../../src/index.js'
import { inject } from '../../../../src/testing/index.js'

const report = defineTask({ name: 'report', run: () => 'done' })

/** The warnings about wrong mounts that the process has emitted during a test. */
let warnings: string[]
let tasks: Tasks
let endpoints: TaskEndpoints
const listen = (warning: Error): void => {
  if (warning.name === 'LonghaulWarning') warnings.push(warning.message)
}

beforeEach(() => {
  warnings = []
  process.on('warning', listen)
  tasks = createTasks({ ...memory(), definitions: [report] })
  endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
})

afterEach(async () => {
  process.off('warning', listen)
  await tasks.close()
})

/** Returns the warnings, which Node emits in a later turn. */
async function warned(): Promise<string[]> {
  await turn()
  return warnings
}

/** Submits a task below a mount path, and returns its `Location`. */
async function location(mountPath = ''): Promise<string> {
  const { headers } = await inject(endpoints.submit(report), {
    method: 'POST', path: `${mountPath}/reports`, mountPath, headers: { prefer: 'respond-async' }, body: {},
  })
  return String(headers['location'])
}

describe('a status handler that is mounted where no Location leads', () => {
  test('causes one warning with both paths at the first request, behind another route of the application', async () => {
    const id = (await location()).slice('/tasks/'.length)
    for (const path of [`/jobs/${id}`, `/jobs/${id}`]) {
      assert.equal((await inject(endpoints.status, { path, params: { id } })).status, 200)
    }
    assert.equal((await warned()).length, 1)
    assert.match(String(warnings[0]), new RegExp(`was called at /jobs/${id}, but Location is /tasks/${id}\\.`))
  })

  test('gives a 404 to the first client that follows Location, and causes one warning, below another mount path', async () => {
    const path = await location('/api')
    assert.match(path, /^\/api\/tasks\//)
    for (let at = 0; at < 2; at++) assert.equal((await inject(endpoints.status, { path })).status, 404)
    assert.equal((await warned()).length, 1)
    assert.match(
      String(warnings[0]),
      new RegExp(`followed Location to ${path}, but the status handler is mounted at /tasks/{id}\\.`),
    )
  })

  test('causes a warning at the construction of a router that contains the handler', async () => {
    router({ 'POST /reports': endpoints.submit(report), 'GET|HEAD|DELETE /jobs/{id}': endpoints.status })
    assert.deepEqual(await warned(), [
      'router: the handler of "GET|HEAD|DELETE /jobs/{id}" is for /tasks/{id}, so links to it lead nowhere. ' +
      'Make both paths the same, such as statusPath: \'/jobs/{id}\'.',
    ])
  })
})

describe('a status handler causes no warning', () => {
  test('if both paths fit, with any name of the parameter', async () => {
    const api = router({ 'POST /reports': endpoints.submit(report), '/tasks/{task}': endpoints.status })
    assert.equal((await inject(api, { path: await location() })).status, 200)
    assert.deepEqual(await warned(), [])
  })

  test('behind a proxy that removes a prefix, with mountPath', async () => {
    const path = await location('/api')
    const id = path.slice(path.lastIndexOf('/') + 1)
    assert.equal(
      (await inject(endpoints.status, { path: `/tasks/${id}`, mountPath: '/api', params: { id } })).status,
      200,
    )
    assert.deepEqual(await warned(), [])
  })

  test('for a slash at the end and other letter case, which routers of frameworks ignore', async () => {
    const id = (await location()).slice('/tasks/'.length)
    for (const path of [`/tasks/${id}/`, `/Tasks/${id}`]) await inject(endpoints.status, { path, params: { id } })
    assert.deepEqual(await warned(), [])
  })

  test('for requests of the application to paths that no Location names', async () => {
    await location()
    for (const path of ['/', '/users/1', '/api/tasks/unknown']) await inject(endpoints.status, { path })
    assert.deepEqual(await warned(), [])
  })
})

describe('a status handler responds to', () => {
  const allow = 'GET, HEAD, DELETE, OPTIONS'

  test('OPTIONS with Allow', async () => {
    const answer = await inject(endpoints.status, { method: 'OPTIONS', path: '/tasks/x' })
    assert.deepEqual([answer.status, answer.headers['allow'], answer.headers['content-length']], [200, allow, '0'])
  })

  test('other methods with 405 and Allow, at its own path and behind a route of the application', async () => {
    for (const method of ['PUT', 'PATCH', 'POST']) {
      for (const params of [{}, { id: 'x' }]) {
        const path = 'id' in params ? '/jobs/x' : '/tasks/x'
        const answer = await inject(endpoints.status, { method, path, params })
        assert.deepEqual([answer.status, answer.headers['allow']], [405, allow], method)
      }
    }
  })

  test('no request for other paths, or for paths where id means something else', async () => {
    assert.equal(await endpoints.status(await requestOf('PUT', '/users/x', {})), undefined)
    assert.equal(await endpoints.status(await requestOf('PUT', '/tenants/x/users', { id: 'x' })), undefined)
  })
})

/** Returns a request as a handler sees it. */
async function requestOf(method: string, path: string, params: Record<string, string>) {
  let seen: Parameters<TaskEndpoints['status']>[0] | undefined
  await inject((request) => { seen = request; return undefined }, { method, path, params })
  assert.ok(seen)
  return seen
}
