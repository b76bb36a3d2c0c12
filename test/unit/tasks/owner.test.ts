import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { compose, type BodySource, type Handler, type HttpRequest } from '../../../src/http/exchange.js'
import { authenticate, bearer, tokens } from '../../../src/policies/index.js'
import { router } from '../../../src/resources/index.js'
import { createTasks, defineTask, taskEndpoints } from '../../../src/tasks/index.js'
import { ask } from '../policies/request.js'

/** The endpoints behind bearer tokens that are the names of their subjects. */
function site(t: TestContext, owner?: (request: HttpRequest) => string | undefined): { readonly api: Handler } {
  const work = defineTask({ name: 'work', run: () => ({ message: 'done' }) })
  const tasks = createTasks({ ...memory(), definitions: [work] })
  t.after(() => tasks.close({ drainMs: 0 }))
  const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', ...owner && { owner } })
  const who = authenticate({ optional: true, schemes: [bearer({ verify: tokens({ ann: { subject: 'ann' }, bob: { subject: 'bob' } }) })] })
  const api = compose<unknown>(who, router({ 'POST /work': submit(work), 'GET|HEAD|DELETE /tasks/{id}': status }))
  return { api }
}

const as = (name: string | undefined): Record<string, string> => (name === undefined ? {} : { authorization: `Bearer ${name}` })
const body: BodySource = { parsed: { value: {} }, bytes: async () => Buffer.from('{}'), stream: async function* () { yield Buffer.from('{}') } }

async function submitted(api: Handler, name: string | undefined, key = 'k'): Promise<{ location: string, replayed: boolean }> {
  const { status, headers } = await ask(api, {
    method: 'POST', path: '/work', body, headers: { ...as(name), 'content-type': 'application/json', prefer: 'respond-async', 'idempotency-key': key },
  })
  assert.equal(status, 202)
  return { location: String(headers['location']), replayed: headers['idempotent-replayed'] !== undefined }
}

async function statusOf(api: Handler, name: string | undefined, path: string, method = 'GET'): Promise<number> {
  return (await ask(api, { method, path, headers: as(name) })).status
}

describe('a task, unless it is said otherwise', () => {
  test('belongs to the subject that authenticate has found', async (t) => {
    const { api } = site(t)
    const { location } = await submitted(api, 'ann')
    assert.equal(await statusOf(api, 'ann', location), 200)
    for (const other of ['bob', undefined]) {
      for (const method of ['GET', 'DELETE']) assert.equal(await statusOf(api, other, location, method), 404, `${method} ${String(other)}`)
    }
  })

  test('of nobody is for all who are nobody', async (t) => {
    const { api } = site(t)
    const { location } = await submitted(api, undefined)
    assert.equal(await statusOf(api, undefined, location), 200)
    assert.equal(await statusOf(api, 'ann', location), 404)
  })

  test('is not what the same Idempotency-Key of another subject means', async (t) => {
    const { api } = site(t)
    const first = await submitted(api, 'ann')
    assert.deepEqual(await submitted(api, 'ann'), { ...first, replayed: true })
    const other = await submitted(api, 'bob')
    assert.notEqual(other.location, first.location)
    assert.equal(other.replayed, false)
  })
})

test('a task without owner, where that is asked for, is for whoever knows its id', async (t) => {
  const { api } = site(t, () => undefined)
  const { location } = await submitted(api, 'ann')
  for (const name of ['ann', 'bob', undefined]) assert.equal(await statusOf(api, name, location), 200, String(name))
})
