// The code of docs/guide/result-files.md: the page takes the regions from here.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { inject } from 'longhaul/testing'
// #region files
import { createTasks, defineTask, router, taskEndpoints, type HttpRequest } from 'longhaul'
import { memory } from 'longhaul/memory'

interface HostContext { readonly user?: { readonly id: string } }

/** The rows of the file. They are written as they come, so the file may be larger than memory. */
async function* rows(year: number): AsyncGenerator<string> {
  yield 'month,total\n'
  for (let month = 1; month <= 12; month++) yield `${year}-${month},100\n`
}

const totals = defineTask({
  name: 'totals',
  files: true,
  run: async (input: { year: number }, { files }) => {
    await files.write('totals.csv', rows(input.year), { type: 'text/csv; charset=utf-8' })
    return { message: 'The totals are ready.' }
  },
})

const tasks = createTasks({ ...memory(), definitions: [totals] })
const endpoints = taskEndpoints(tasks, {
  statusPath: '/tasks/{id}',
  owner: ({ context }: HttpRequest<HostContext>) => context.user?.id,
})

export const handler = router<HostContext>({
  'POST /totals': endpoints.submit(totals),
  'GET|HEAD|DELETE /tasks/{id}': endpoints.status,
  'GET|HEAD /tasks/{id}/files/{name}': endpoints.files,
})
// #endregion
// #region export
import { exportTask } from 'longhaul/export'

interface User { readonly id: number, readonly name: string, readonly role: string }

/** Reads from your database, for example with a cursor. */
async function* readUsers(role: string): AsyncGenerator<readonly User[]> {
  yield [{ id: 1, name: 'Ann', role }, { id: 2, name: 'Bob', role }]
  yield [{ id: 3, name: 'Cem', role }]
}

const exportUsers = exportTask({
  name: 'export-users',
  fileName: 'users',
  format: 'csv',
  columns: ['id', { key: 'name', header: 'Name' }],
  partRecords: 2,
  records: ({ role }: { role: string }) => readUsers(role),
})
// #endregion
const exportEngine = memory()
const exports = createTasks({ ...exportEngine, definitions: [exportUsers] })

after(async () => {
  await tasks.close()
  await exports.close()
})

test('a task writes a file, and its owner downloads it, whole and in parts', async () => {
  const context = { user: { id: 'ann' } }
  const accepted = await inject(handler, {
    method: 'POST', path: '/totals', body: { year: 2026 }, headers: { prefer: 'respond-async' }, context,
  })
  assert.equal(accepted.status, 202)
  const { taskId } = await accepted.json<{ taskId: string }>()
  await tasks.wait(taskId, { timeoutMs: 5000 })
  const shown = await inject(handler, { path: `/tasks/${taskId}`, context })
  const { files: [file] } = await shown.json<{ files: { url: string }[] }>()
  const path = file?.url ?? ''
  assert.equal(path, `/tasks/${taskId}/files/totals.csv`)

  const whole = await inject(handler, { path, context })
  assert.equal(whole.status, 200)
  assert.equal(whole.headers['content-disposition'], 'attachment; filename="totals.csv"')
  assert.match(await whole.text(), /^month,total\n2026-1,100\n/)
  const part = await inject(handler, { path, context, headers: { range: 'bytes=0-4' } })
  assert.equal(part.status, 206)
  assert.equal(await part.text(), 'month')

  const foreign = await inject(handler, { path, context: { user: { id: 'bob' } } })
  assert.equal(foreign.status, 404)
})

test('a request without Prefer: respond-async gets the result, and Location leads to the file', async () => {
  const context = { user: { id: 'ann' } }
  const answer = await inject(handler, { method: 'POST', path: '/totals', body: { year: 2026 }, context })
  assert.equal(answer.status, 200)
  const shown = await inject(handler, { path: String(answer.headers['location']), context })
  assert.equal((await shown.json<{ files: unknown[] }>()).files.length, 1)
})

test('an export is written in parts', async () => {
  const { taskId } = await exports.submit(exportUsers, { role: 'admin' })
  const end = await exports.wait(taskId, { timeoutMs: 5000 })
  assert.ok(end?.status === 'completed')
  assert.deepEqual(end.result, { message: 'Exported 3 records.', records: 3, parts: 2 })
  assert.deepEqual(end.files?.map(({ name }) => name), ['users-0001.csv', 'users-0002.csv'])
})
