// Uploads of records that resume: the handler is that of `ndjsonUpload`, unchanged.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { memory } from '../../../adapters/memory/index.js'
import { createTasks, taskEndpoints } from '../../../src/index.js'
import { ndjsonUpload } from '../../../src/ndjson/index.js'
import { broken, setUp } from '../kit/uploads.js'

const COUNT = 3000
const text = Array.from({ length: COUNT }, (_, id) => `{"id":${id}}\n`).join('')
const bytes = Buffer.from(text)
const half = Math.floor(bytes.length / 2) + 3

function site() {
  const engine = memory()
  const { blobs, store } = engine
  const written: { id: number }[] = []
  const users = ndjsonUpload<{ id: number }>({
    write: (records) => { written.push(...records) }, background: { name: 'import-users', blobs },
  })
  const tasks = createTasks({ ...engine, definitions: [users.task] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const uploads = setUp({ blobs, store, owner: 'anyone', maxResponseBytes: 1000 }, users.handler(endpoints))
  return { ...uploads, written, tasks, blobs }
}

describe('records in a resumable upload', () => {
  test('are read in the background by a task, from the bytes of all requests', async () => {
    const { create, patch, head, written, tasks, blobs } = site()
    const path = await create({ 'content-type': 'application/x-ndjson', 'prefer': 'respond-async' })
    await patch(path, 0, broken(bytes.subarray(0, half)), true)
    assert.equal((await head(path)).headers['upload-offset'], String(half))
    const answer = await patch(path, half, bytes.subarray(half), true)
    assert.equal(answer.status, 202)
    assert.match(String(answer.headers['location']), /^\/tasks\//)
    assert.equal(answer.headers['upload-complete'], '?1')
    const { taskId } = await answer.json<{ taskId: string }>()
    while ((await tasks.get(taskId))?.status !== 'completed') await sleep(5)
    assert.deepEqual(written.map(({ id }) => id), Array.from({ length: COUNT }, (_, id) => id))
    const again = await patch(path, bytes.length, undefined, true)
    assert.equal((await again.json<{ taskId: string }>()).taskId, taskId)
    while (blobs.usage().blobs > 0) await sleep(5)
    await tasks.close()
  })

  test('are read synchronously, with a line for each record although the response is too large to keep', async () => {
    const { create, patch, written, tasks, blobs } = site()
    const direct = await create({ 'content-type': 'application/x-ndjson' })
    const report = await patch(direct, 0, bytes, true)
    assert.deepEqual((await report.json<{ summary: object }>()).summary, { total: COUNT, succeeded: COUNT, failed: 0 })
    const lines = await create({ 'content-type': 'application/x-ndjson', 'accept': 'application/x-ndjson' })
    const answer = await patch(lines, 0, bytes, true)
    assert.equal((await answer.text()).trim().split('\n').length, COUNT + 1)
    assert.equal(written.length, 2 * COUNT)
    const again = await patch(lines, bytes.length, undefined, true)
    assert.match(await again.text(), /too large to be repeated/)
    assert.equal(written.length, 2 * COUNT)
    while (blobs.usage().blobs > 0) await sleep(5)
    await tasks.close()
  })
})
