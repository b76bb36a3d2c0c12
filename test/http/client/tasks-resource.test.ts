// The client against real handlers: lists of tasks, and what their items lead to.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { createTasks, defineTask, HttpError, jobFormat, router, taskEndpoints, type HttpRequest } from 'longhaul'
import { createClient, type Client } from 'longhaul/client'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'

const report = defineTask({
  name: 'report',
  run: ({ year }: { year: number }) => {
    if (year < 2000) throw new HttpError(422, 'too_old', { message: 'That is too old.' })
    return { message: 'Here.', year }
  },
})
const mail = defineTask({ name: 'mail', run: () => ({ message: 'Sent.' }) })

const tasks = createTasks({ ...memory(), definitions: [report, mail] })
const owner = ({ headers }: HttpRequest): string | undefined => headers['x-user'] as string | undefined
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner })
const jobs = taskEndpoints(tasks, { statusPath: '/job-status/{id}', owner, format: jobFormat })
const handler = router({
  'POST /reports': endpoints.submit(report),
  'GET /tasks': endpoints.list,
  'GET|HEAD|DELETE /tasks/{id}': endpoints.status,
  'GET /jobs': jobs.list,
  'GET|HEAD|DELETE /job-status/{id}': jobs.status,
})
const server = createServer((request, response) => { toNode(handler, { mountPath: '/v1' })(request, response) })

let baseUrl = ''
const clientOf = (user: string): Client => createClient({ baseUrl, headers: { 'x-user': user }, retry: { baseMs: 1 } })

before(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
})
after(async () => {
  await tasks.close({ drainMs: 0 })
  server.close()
  server.closeAllConnections()
})

describe('client.tasks on real handlers', () => {
  test('finds what was submitted, page by page, with a filter', async () => {
    const ann = clientOf('ann')
    const submitted: (string | undefined)[] = []
    for (const year of [2021, 1999, 2022, 1998, 2023]) {
      const task = await ann.submit('/reports', { year })
      await task.result().catch(() => undefined)
      submitted.push(task.taskId)
    }
    await clientOf('bob').run('/reports', { year: 2020 })
    const found: (string | undefined)[] = []
    for await (const { taskId } of ann.tasks('/tasks', { limit: 2, order: 'oldest' })) found.push(taskId)
    assert.deepEqual(found.toSorted(), submitted.toSorted())
    const years: unknown[] = []
    for await (const task of ann.tasks<{ year: number }>('/tasks', { limit: 1, status: ['completed'], task: ['report'], from: new Date(0) })) {
      if (task.status === 'completed') years.push(task.result.year)
    }
    assert.deepEqual(years.toSorted(), [2021, 2022, 2023])
    const { items: [first], next } = await ann.tasks('/tasks', { status: 'failed', limit: 1 }).page()
    assert.ok(first && next)
    assert.deepEqual([first.error?.code, first.statusUrl], ['too_old', `${baseUrl}/tasks/${first.taskId}`])
    assert.equal((await ann.resume(first).status()).taskId, first.taskId)
    await assert.rejects(clientOf('bob').tasks('/tasks').page(next), { status: 400, code: 'invalid_cursor' })
    await assert.rejects(ann.tasks('/tasks', { status: 'broken' }).page(), { status: 400, code: 'invalid_query' })
  })

  test('reads lists of jobs, which name their status resources', async () => {
    const carl = clientOf('carl')
    const { taskId } = await tasks.ownedBy('carl').submit(mail, {}, { delayMs: 3_600_000 })
    const { items: [job] } = await carl.tasks('/jobs', { status: 'scheduled' }).page()
    assert.ok(job)
    assert.deepEqual([job.taskId, job.statusUrl], [taskId, `${baseUrl}/job-status/${taskId}`])
    assert.equal((await carl.resume(job).cancel()).status, 'cancelled')
  })
})
