// The code of docs/guide/result-files.md: the page takes the region from here.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { inject } from 'longhaul/testing'
// #region files
import { createTasks, defineTask, httpError, router, taskEndpoints } from 'longhaul'
import { blobSource, content } from 'longhaul/content'
import { memory } from 'longhaul/memory'

interface HostContext { readonly user?: { readonly id: string } }

const DAY_MS = 86_400_000
const engine = memory()
const keyOf = (taskId: string) => `exports/${taskId}.csv`

/** The rows of the file. They are written as they come, so the file may be larger than memory. */
async function* rows(year: number): AsyncGenerator<Uint8Array> {
  yield Buffer.from('month,total\n')
  for (let month = 1; month <= 12; month++) yield Buffer.from(`${year}-${month},100\n`)
}

const exportTask = defineTask({
  name: 'export',
  retentionMs: DAY_MS,
  run: async (input: { year: number }, { taskId, signal }) => {
    if (taskId === undefined) throw httpError('bad_request', { message: 'Send Prefer: respond-async.' })
    await engine.blobs.put(keyOf(taskId), rows(input.year), { ttlMs: 2 * DAY_MS, signal })
    return { message: 'The export is ready.', file: `/exports/${taskId}` }
  },
})

const tasks = createTasks({ ...engine, definitions: [exportTask] })
const { submit, status } = taskEndpoints<HostContext>(tasks, {
  statusPath: '/tasks/{id}',
  owner: ({ context }) => context.user?.id,
})

/** Serves the file of a task to its owner. */
const download = content<HostContext>(async ({ params, context }) => {
  const id = params['id'] ?? ''
  const task = await tasks.ownedBy(context.user?.id).get(id)
  if (task?.status !== 'completed') return undefined // the answer is 404
  return blobSource(engine.blobs, keyOf(id), { type: 'text/csv', name: 'export.csv' })
}, { disposition: 'attachment' })

export const handler = router<HostContext>({
  'POST /exports': submit(exportTask),
  'GET|HEAD|DELETE /tasks/{id}': status,
  'GET|HEAD /exports/{id}': download,
})
// #endregion

after(() => tasks.close())

test('a task writes a file, and its owner downloads it, whole and in parts', async () => {
  const context = { user: { id: 'ann' } }
  const accepted = await inject(handler, {
    method: 'POST', path: '/exports', body: { year: 2026 }, headers: { prefer: 'respond-async' }, context,
  })
  assert.equal(accepted.status, 202)
  const { taskId } = await accepted.json<{ taskId: string }>()
  await tasks.wait(taskId, { timeoutMs: 5000 })
  const shown = await inject(handler, { path: `/tasks/${taskId}`, context })
  const { result } = await shown.json<{ result: { file: string } }>()
  assert.equal(result.file, `/exports/${taskId}`)

  const whole = await inject(handler, { path: result.file, context })
  assert.equal(whole.status, 200)
  assert.equal(whole.headers['content-disposition'], 'attachment; filename="export.csv"')
  const text = await whole.text()
  assert.match(text, /^month,total\n2026-1,100\n/)
  const part = await inject(handler, { path: result.file, context, headers: { range: 'bytes=0-4' } })
  assert.equal(part.status, 206)
  assert.equal(await part.text(), 'month')

  const foreign = await inject(handler, { path: result.file, context: { user: { id: 'bob' } } })
  assert.equal(foreign.status, 404)
})

test('a request without Prefer: respond-async is refused, because it has no task that could keep a file', async () => {
  const refused = await inject(handler, { method: 'POST', path: '/exports', body: { year: 2026 }, context: {} })
  assert.equal(refused.status, 400)
})
