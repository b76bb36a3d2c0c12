// The client against real handlers: lists of tasks, and what their items lead to.
import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { after, describe, test } from 'node:test'
import { createTasks, defineTask, HttpError, jobFormat, router, taskEndpoints, type HttpRequest } from 'longhaul'
import { createClient, type Client } from 'longhaul/client'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { listen } from '../../kit/listen.js'

const report = defineTask({
  name: 'report',
  run: ({ year }: { year: number }) => {
    if (year < 2000) throw new HttpError(422, 'too_old', { message: 'That is too old.' })
    return { message: 'Here.', year }
  },
})
const csv = defineTask({
  name: 'csv', files: true,
  run: async ({ rows }: { rows: number }, { files }) => {
    const content = function* () { for (let row = 0; row < rows; row++) yield `${row},name of ${row}\n` }
    await files.write('all users.csv', content(), { type: 'text/csv' })
    return { message: 'Written.' }
  },
})
let printed = 0
/** Fails at the first run of each task. */
const flaky = defineTask({ name: 'flaky', run: (_: unknown, { attempt }) => {
  printed++
  if (attempt === 1) throw new HttpError(503, 'no_paper', { message: 'There is no paper.' })
  return { message: 'Printed.' }
} })
const mail = defineTask({ name: 'mail', run: () => ({ message: 'Sent.' }) })

const tasks = createTasks({ ...memory(), definitions: [report, csv, flaky, mail], onError: () => undefined })
const owner = ({ headers }: HttpRequest): string | undefined => headers['x-user'] as string | undefined
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner, remove: 'forget' })
const jobs = taskEndpoints(tasks, { statusPath: '/job-status/{id}', owner, format: jobFormat })
const handler = router({
  'POST /reports': endpoints.submit(report),
  'POST /csv': endpoints.submit(csv),
  'POST /flaky': endpoints.submit(flaky),
  'GET /tasks': endpoints.list,
  'GET|HEAD /tasks/{id}/files/{name}': endpoints.files,
  'POST /tasks/{id}/retry': endpoints.retry,
  'GET|HEAD|DELETE /tasks/{id}': endpoints.status,
  'GET /jobs': jobs.list,
  'GET|HEAD|DELETE /job-status/{id}': jobs.status,
})
const server = createServer((request, response) => { toNode(handler, { mountPath: '/v1' })(request, response) })

const { url, close } = await listen(server)
const baseUrl = `${url}/v1`
const clientOf = (user: string): Client => createClient({ baseUrl, headers: { 'x-user': user }, retry: { baseMs: 1 } })

after(async () => {
  await tasks.close({ drainMs: 0 })
  await close()
})

describe('client.tasks on real handlers', () => {
  test('finds submitted tasks, page by page, with a filter', async () => {
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
    for await (const task of ann.tasks<{ year: number }>('/tasks', {
      limit: 1,
      status: ['completed'],
      task: ['report'],
      from: new Date(0),
    })) {
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

  test('reads lists in job format and uses their statusUrl', async () => {
    const carl = clientOf('carl')
    const { taskId } = await tasks.ownedBy('carl').submit(mail, {}, { delayMs: 3_600_000 })
    const { items: [job] } = await carl.tasks('/jobs', { status: 'scheduled' }).page()
    assert.ok(job)
    assert.deepEqual([job.taskId, job.statusUrl], [taskId, `${baseUrl}/job-status/${taskId}`])
    assert.equal((await carl.resume(job).cancel()).status, 'cancelled')
  })
})

describe('a handle on real handlers', () => {
  test('cancel does not delete a task that ends between its two requests', async () => {
    const { taskId } = await tasks.ownedBy('erin').submit(mail, {}, { delayMs: 3_600_000 })
    const seen: string[] = []
    const fetch: typeof globalThis.fetch = async (url, init) => {
      if (init?.method === 'DELETE') await tasks.cancel(taskId)
      const response = await globalThis.fetch(url, init)
      seen.push(`${init?.method} ${response.status}`)
      return response
    }
    const erin = createClient({ baseUrl, headers: { 'x-user': 'erin' }, fetch })
    assert.equal((await erin.resume({ statusUrl: `/tasks/${taskId}` }).cancel()).status, 'cancelled')
    assert.deepEqual(seen, ['GET 200', 'DELETE 412', 'GET 200'])
    assert.equal((await tasks.get(taskId))?.status, 'cancelled')
  })

  test('retries a failed task, shows its attempts, then deletes it', async () => {
    const ann = clientOf('dora')
    const task = await ann.submit<{ message: string }>('/flaky', {})
    await assert.rejects(task.result(), { code: 'no_paper' })
    assert.equal((await task.retry()).status, 'processing')
    assert.equal((await task.result()).message, 'Printed.')
    const { attempt, attempts = [] } = await task.status()
    assert.equal(attempt, 2)
    assert.deepEqual(attempts.map((each) => [each.attempt, each.error?.code]), [[1, 'no_paper'], [2, undefined]])
    await assert.rejects(task.retry(), { code: 'task_already_completed' })
    assert.equal((await task.cancel()).status, 'completed', 'cancel deletes nothing')
    await assert.rejects(clientOf('bob').resume(task.toJSON()).retry(), { code: 'task_not_found' })
    await clientOf('bob').resume(task.toJSON()).forget()
    assert.equal((await task.status()).status, 'completed', 'a stranger deletes nothing')
    await task.forget()
    await assert.rejects(task.status(), { code: 'task_not_found' })
    await task.forget()
  })

  test('a retry whose response is lost runs once', async () => {
    const dora = clientOf('dora')
    const task = await dora.submit('/flaky', {})
    await assert.rejects(task.result(), { code: 'no_paper' })
    const runs = printed
    let lost = 0
    const cut = ({ url }: IncomingMessage, response: ServerResponse): void => {
      if (!url?.endsWith('/retry') || lost > 0) return
      lost++
      response.end = () => { response.socket?.resetAndDestroy(); return response }
    }
    server.prependListener('request', cut)
    await task.retry()
    server.off('request', cut)
    assert.equal((await task.result() as { message: string }).message, 'Printed.')
    assert.deepEqual([lost, printed - runs], [1, 1])
  })
})

describe('the files of a task', () => {
  test('can be downloaded by name or entry, and do not start over after a cut connection', async () => {
    const ann = clientOf('ann')
    const task = await ann.submit('/csv', { rows: 200_000 })
    await task.result()
    const now = await task.status()
    const [entry] = now.status === 'completed' ? now.files ?? [] : []
    assert.ok(entry)
    assert.deepEqual(
      [entry.name, entry.type, entry.url],
      ['all users.csv', 'text/csv', `/v1/tasks/${task.taskId}/files/all%20users.csv`],
    )
    let cuts = 0
    const cut = (request: IncomingMessage, response: ServerResponse): void => {
      if (!request.url?.includes('/files/') || cuts >= 3) return
      cuts++
      let sent = 0
      const write = response.write.bind(response) as (chunk: Uint8Array) => boolean
      response.write = (chunk: Uint8Array) => {
        sent += chunk.length
        if (sent > 300_000) response.socket?.resetAndDestroy()
        return write(chunk)
      }
    }
    server.prependListener('request', cut)
    const positions: number[] = []
    const download = task.file(entry.name, { onProgress: ({ received }) => { positions.push(received) } })
    const blob = await download.blob()
    server.off('request', cut)
    assert.deepEqual([cuts, blob.size, blob.type], [3, entry.size, 'text/csv'])
    assert.deepEqual(positions, positions.toSorted((one, other) => one - other), 'no byte came twice')
    assert.match(await blob.text(), /^0,name of 0\n1,.*\n199999,name of 199999\n$/s)
    assert.equal(await task.file(entry).blob().then(({ size }) => size), entry.size)
    await assert.rejects(
      clientOf('bob')
        .resume({ statusUrl: task.statusUrl ?? '' })
        .file(entry.name)
        .blob(),
      { status: 404, code: 'file_not_found' },
    )
  })
})
