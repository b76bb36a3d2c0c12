import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { defineTask, type AnyTaskDefinition } from 'longhaul'
import { createClient } from 'longhaul/client'
import { exportTask } from 'longhaul/export'
import { deferred, eventually } from '../../../kit/wait.js'
import type { FilesEngine } from '../../kit/file-engines.js'
import { filesSite } from '../../kit/task-files.js'

/** Runs the tests of `partialFiles` over one engine. */
export function partialFilesSuite(title: string, open: () => Promise<FilesEngine>): void {
  async function site(t: TestContext, definition: AnyTaskDefinition) {
    const engine = await open()
    const made = await filesSite(t, engine, [definition])
    t.after(() => engine.close())
    /** The files of a task, with their text. */
    const filesOf = async (path: string) => {
      const { status, files = [] } = await made.status(path)
      const texts = await Promise.all(files.map(async ({ name, url }) => {
        const response = await made.call('GET', url, { 'x-user': 'ann' })
        assert.equal(response.status, 200)
        return [name, await response.text()]
      }))
      return { status, files: Object.fromEntries(texts) as Record<string, string> }
    }
    return { ...made, engine, filesOf }
  }

  describe(`the finished files of a task with partialFiles over ${title}`, () => {
    test('stay with a cancelled task, and the file that was not finished leaves no blob', async (t) => {
      const [begun, end] = [deferred<void>(), deferred<void>()]
      const report = defineTask({
        name: 'report', files: true, partialFiles: true,
        run: async (_: object, { files }) => {
          await Promise.all([files.write('a.txt', 'A'), files.write('b.txt', 'B')])
          await files.write('c.txt', (async function* () {
            yield 'C'
            begun.resolve()
            await end.promise
            yield 'C'
          })())
        },
      })
      const { tasks, call, origin, engine, filesOf } = await site(t, report)
      const { taskId } = await tasks.submit(report, {}, { owner: 'ann' })
      const path = `/v1/tasks/${taskId}`
      await begun.promise
      assert.deepEqual(await filesOf(path), { status: 'processing', files: {} }, 'none is shown before the end')
      assert.equal((await call('GET', `${path}/files/a.txt`, { 'x-user': 'ann' })).status, 404)
      assert.ok((await call('DELETE', path, { 'x-user': 'ann' })).ok)
      end.resolve()
      assert.deepEqual(await filesOf(path), { status: 'cancelled', files: { 'a.txt': 'A', 'b.txt': 'B' } })
      assert.equal((await call('GET', `${path}/files/a.txt`, { 'x-user': 'bob' })).status, 404)
      const client = createClient({ baseUrl: origin, headers: { 'x-user': 'ann' } })
      const handle = client.task('/v1/work').resume({ statusUrl: path })
      const now = await handle.status()
      assert.deepEqual(now.status === 'cancelled' && now.files?.map(({ name }) => name), ['a.txt', 'b.txt'])
      assert.equal(await (await handle.file('b.txt').blob()).text(), 'B')
      await eventually(async () => await engine.blobCount() === 2)
      await tasks.delete(taskId)
      await eventually(async () => await engine.blobCount() === 0)
    })

    test('stay with a failed task until a run of a retry has written a file, and those of a completed run replace them', async (t) => {
      const fails = [true, true, false]
      let run = 0
      const report = defineTask({
        name: 'report', files: true, partialFiles: true,
        run: async (_: object, { files }) => {
          run++
          if (run !== 2) await files.write(`${run}.txt`, `run ${run}`)
          if (fails[run - 1]) throw new Error('the database is gone')
        },
      })
      const { tasks, ran, end, engine, filesOf } = await site(t, report)
      const { path, body: { taskId } } = await ran('report')
      assert.deepEqual(await filesOf(path), { status: 'failed', files: { '1.txt': 'run 1' } })
      for (const expected of [
        { status: 'failed', files: { '1.txt': 'run 1' } }, { status: 'completed', files: { '3.txt': 'run 3' } },
      ]) {
        await tasks.retry(taskId)
        await end(path)
        assert.deepEqual(await filesOf(path), expected)
      }
      await eventually(async () => await engine.blobCount() === 1)
    })

    test('are the finished parts of an export that is cancelled, and its retry continues after them', async (t) => {
      const [reached, go] = [deferred<void>(), deferred<void>()]
      const users = exportTask({
        name: 'users', format: 'csv', partRecords: 2, partialFiles: true,
        async* records(_: object, { from }) {
          for (let id = from() + 1; id <= 6; id++) {
            yield { id }
            if (id !== 5) continue
            reached.resolve()
            await go.promise
          }
        },
      })
      const { tasks, end, engine, filesOf } = await site(t, users)
      const { taskId } = await tasks.submit(users, {}, { owner: 'ann' })
      const path = `/v1/tasks/${taskId}`
      await reached.promise
      await tasks.cancel(taskId)
      go.resolve()
      const parts = { 'users-0001.csv': 'id\r\n1\r\n2\r\n', 'users-0002.csv': 'id\r\n3\r\n4\r\n' }
      assert.deepEqual(await filesOf(path), { status: 'cancelled', files: parts })
      await eventually(async () => await engine.blobCount() === 2)
      await tasks.retry(taskId)
      await end(path)
      assert.deepEqual(await filesOf(path), { status: 'completed', files: { ...parts, 'users-0003.csv': 'id\r\n5\r\n6\r\n' } })
    })
  })
}
