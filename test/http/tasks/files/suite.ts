import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineTask, type AnyTaskDefinition } from 'longhaul'
import type { FilesEngine } from '../../kit/file-engines.js'
import { filesSite, type FilesSite } from '../../kit/task-files.js'
import { deferred, eventually } from '../../../kit/wait.js'

/** Bytes of a pattern, in pieces. */
export async function* pattern(size: number, piece = 65_536): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < size; at += piece) {
    yield Uint8Array.from({ length: Math.min(piece, size - at) }, (_, index) => (at + index) % 251)
  }
}

/** SHA-256 of bytes, as a member of `Repr-Digest`. */
export function digestOf(bytes: Uint8Array | string): string {
  return `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`
}

const report = defineTask({
  name: 'report',
  files: true,
  run: async ({ rows = 3 }: { rows?: number }, { files }) => {
    const lines = function* () {
      for (let row = 1; row <= rows; row++) yield `${row},total ${row}\n`
    }
    const csv = await files.write('totals.csv', lines(), { type: 'text/csv; charset=utf-8' })
    await files.write('Übersicht 100%.bin', pattern(100_000))
    return { message: 'Two files.', csv: csv.name }
  },
})
const CSV = '1,total 1\n2,total 2\n3,total 3\n'

/** Runs the tests of result files over one engine. */
export function filesSuite(title: string, open: () => Promise<FilesEngine>): void {
  const site = async (
    t: TestContext, definitions: readonly AnyTaskDefinition[],
  ): Promise<FilesSite & { readonly engine: FilesEngine }> => {
    const engine = await open()
    const made = await filesSite(t, engine, definitions)
    // Called after the tasks were closed.
    t.after(() => engine.close())
    return { ...made, engine }
  }

  describe(`result files over ${title}`, () => {
    test('are listed by a completed task, and its owner downloads them', async (t) => {
      const { ran, call } = await site(t, [report])
      const { body } = await ran('report')
      assert.equal(body.status, 'completed')
      assert.deepEqual(body.files?.map(({ name }) => name), ['totals.csv', 'Übersicht 100%.bin'])
      const [csv, binary] = body.files ?? []
      assert.deepEqual(csv, {
        name: 'totals.csv', url: `/v1/tasks/${body.taskId}/files/totals.csv`, size: CSV.length,
        type: 'text/csv; charset=utf-8', digest: digestOf(CSV),
      })
      assert.equal(binary?.url, `/v1/tasks/${body.taskId}/files/%C3%9Cbersicht%20100%25.bin`)
      const whole = await call('GET', csv?.url ?? '', { 'x-user': 'ann' })
      assert.equal(whole.status, 200)
      assert.equal(await whole.text(), CSV)
      assert.equal(whole.headers.get('content-type'), 'text/csv; charset=utf-8')
      assert.equal(whole.headers.get('content-disposition'), 'attachment; filename="totals.csv"')
      assert.equal(whole.headers.get('repr-digest'), digestOf(CSV))
      assert.equal(whole.headers.get('x-content-type-options'), 'nosniff')
      assert.equal(whole.headers.get('cache-control'), 'private, no-cache')
      assert.match(whole.headers.get('etag') ?? '', /^"[^"]+"$/)
      const other = await call('GET', binary?.url ?? '', { 'x-user': 'ann' })
      assert.equal(digestOf(new Uint8Array(await other.arrayBuffer())), binary?.digest)
      assert.equal(other.headers.get('content-type'), 'application/octet-stream')
      assert.match(
        other.headers.get('content-disposition') ?? '', /filename\*=UTF-8''%C3%9Cbersicht%20100%25\.bin$/,
      )
    })

    test('respond to HEAD, ranges, conditions and digests as content does', async (t) => {
      const { ran, call } = await site(t, [report])
      const { body } = await ran('report', { rows: 3 })
      const url = body.files?.[0]?.url ?? ''
      const ask = (method: string, headers: Record<string, string> = {}) => (
        call(method, url, { 'x-user': 'ann', ...headers })
      )
      const head = await ask('HEAD')
      const etag = head.headers.get('etag') ?? ''
      assert.deepEqual([head.status, head.headers.get('content-length'), await head.text()], [200, '30', ''])
      const part = await ask('GET', { range: 'bytes=10-18', 'if-range': etag })
      assert.deepEqual([part.status, await part.text()], [206, '2,total 2'])
      assert.equal(part.headers.get('content-range'), 'bytes 10-18/30')
      assert.equal(part.headers.get('repr-digest'), digestOf(CSV))
      const stale = await ask('GET', { range: 'bytes=10-18', 'if-range': '"other"' })
      assert.deepEqual([stale.status, await stale.text()], [200, CSV])
      const several = await ask('GET', { range: 'bytes=0-0,-1' })
      assert.match(several.headers.get('content-type') ?? '', /^multipart\/byteranges/)
      assert.equal((await ask('GET', { range: 'bytes=30-' })).status, 416)
      assert.equal((await ask('GET', { 'if-none-match': etag })).status, 304)
      assert.equal((await ask('GET', { 'if-match': '"other"' })).status, 412)
      assert.equal((await ask('GET', { 'want-repr-digest': 'sha-256=0' })).headers.get('repr-digest'), null)
      const options = await ask('OPTIONS')
      assert.deepEqual([options.status, options.headers.get('allow')], [200, 'GET, HEAD, OPTIONS'])
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
        const refused = await ask(method)
        assert.deepEqual([refused.status, refused.headers.get('allow')], [405, 'GET, HEAD, OPTIONS'])
      }
    })

    test('have URLs of the job path in the job format, and both paths serve the same file', async (t) => {
      const { ran, call, status } = await site(t, [report])
      const { body: { taskId } } = await ran('report')
      const { files } = await status(`/v1/jobs/${taskId}/status`)
      assert.equal(files?.[0]?.url, `/v1/jobs/${taskId}/status/files/totals.csv`)
      assert.equal(await (await call('GET', files[0].url, { 'x-user': 'ann' })).text(), CSV)
    })

    test('are written for a synchronous response too, whose Location names their task', async (t) => {
      const { call, status } = await site(t, [report])
      const answer = await call('POST', '/v1/work', { 'x-user': 'ann' }, { task: 'report' })
      assert.deepEqual(
        [answer.status, await answer.json()], [200, { message: 'Two files.', csv: 'totals.csv' }],
      )
      const { files } = await status(answer.headers.get('location') ?? '')
      assert.equal(await (await call('GET', files?.[0]?.url ?? '', { 'x-user': 'ann' })).text(), CSV)
    })

    test('get a 404 if their task is unknown, of another owner, unfinished or failed', async (t) => {
      const gate = deferred()
      const slow = defineTask({
        name: 'slow', files: true, run: async (_, { files }) => {
          await files.write('totals.csv', CSV)
          await gate.promise
        },
      })
      const failing = defineTask({
        name: 'failing', files: true, run: async (_, { files }) => {
          await files.write('totals.csv', CSV)
          throw new Error('no more')
        },
      })
      const { ran, call, engine } = await site(t, [report, slow, failing])
      const { body: { taskId: done } } = await ran('report')
      const accepted = await call(
        'POST', '/v1/work', { 'x-user': 'ann', prefer: 'respond-async' }, { task: 'slow' },
      )
      const { taskId: unfinished } = await accepted.json() as { taskId: string }
      const { body: { taskId: failed } } = await ran('failing')
      await eventually(async () => await engine.blobCount() > 2)
      const bodies = new Set<string>()
      for (const [user, id, name] of [
        ['bob', done, 'totals.csv'], ['', done, 'totals.csv'], ['ann', unfinished, 'totals.csv'],
        ['ann', failed, 'totals.csv'], ['ann', 'unknown', 'totals.csv'], ['ann', done, 'other.csv'],
        ['ann', done, '..%2f..%2fetc%2fpasswd'], ['bob', unfinished, 'x'],
      ] as const) {
        for (const headers of [{}, { range: 'bytes=0-1' }, { 'if-none-match': '*' }]) {
          const whose = { ...headers, ...user !== '' && { 'x-user': user } }
          const answer = await call('GET', `/v1/tasks/${id}/files/${name}`, whose)
          assert.equal(answer.status, 404, `${user} ${id} ${name}`)
          const kept = [...answer.headers].filter(([field]) => field !== 'date')
          bodies.add(JSON.stringify([kept, await answer.text()]))
        }
      }
      assert.equal(bodies.size, 1, [...bodies].join('\n'))
      assert.match([...bodies].join(), /file_not_found/)
      gate.resolve()
    })

    test('leave no blob if their run fails, is cancelled or times out', async (t) => {
      const begun: string[] = []
      const writing = async function* (): AsyncGenerator<Uint8Array> {
        yield Buffer.alloc(300_000)
        begun.push('writing')
        await sleep(60_000, undefined, { ref: false })
      }
      const definitions = [
        defineTask({
          name: 'fails', files: true, run: async (_, { files }) => {
            await files.write('a', CSV)
            await files.write('b', pattern(300_000))
            throw new Error('it failed')
          },
        }),
        defineTask({
          name: 'hangs', files: true, run: async (_, { files }) => {
            await files.write('a', CSV)
            await files.write('b', writing())
          },
        }),
        defineTask({
          name: 'late', files: true, timeoutMs: 300, run: async (_, { files }) => {
            await files.write('a', CSV)
            await files.write('b', writing())
          },
        }),
        defineTask({
          name: 'careless', files: true, run: (_, { files }) => { void files.write('a', writing()) },
        }),
      ]
      const { ran, call, status, engine, heard } = await site(t, definitions)
      assert.equal((await ran('fails')).body.error?.code, 'task_failed')
      assert.equal((await ran('late')).body.error?.code, 'task_timeout')
      begun.length = 0
      const accepted = await call(
        'POST', '/v1/work', { 'x-user': 'ann', prefer: 'respond-async' }, { task: 'hangs' },
      )
      const path = accepted.headers.get('location') ?? ''
      await eventually(() => begun.length > 0)
      assert.equal((await call('DELETE', path, { 'x-user': 'ann' })).status, 200)
      const cancelled = await status(path)
      assert.deepEqual([cancelled.status, cancelled.files], ['cancelled', undefined])
      const careless = await ran('careless')
      assert.equal(careless.body.error?.code, 'task_failed')
      assert.ok(heard.some((error) => /await each files\.write/.test(String(error))))
      await eventually(async () => await engine.blobCount() === 0, 20_000)
    })

    test('are replaced by the files of a second attempt', async (t) => {
      const twice = defineTask({
        name: 'twice', files: true, attempts: 2, backoff: { type: 'fixed', delayMs: 10 },
        run: async (_, { files, attempt }) => {
          await files.write('attempt.txt', `attempt ${attempt}`)
          if (attempt === 1) await files.write('more.txt', 'more')
          if (attempt === 1) throw new Error('once more')
        },
      })
      const { ran, call, engine } = await site(t, [twice])
      const { body } = await ran('twice')
      assert.deepEqual(body.files?.map(({ name, size }) => [name, size]), [['attempt.txt', 9]])
      const [file] = body.files ?? []
      assert.equal(await (await call('GET', file?.url ?? '', { 'x-user': 'ann' })).text(), 'attempt 2')
      await eventually(async () => await engine.blobCount() === 1)
    })

    test('are written again by a retry', async (t) => {
      const failsOnce = defineTask({
        name: 'once', files: true, run: async (_, { files, attempt }) => {
          await files.write('attempt.txt', `attempt ${attempt}`)
          if (attempt === 1) throw new Error('once more')
        },
      })
      const { ran, end, call, tasks, engine } = await site(t, [failsOnce])
      const { path, body: { taskId, status, files } } = await ran('once')
      assert.deepEqual([status, files], ['failed', undefined])
      assert.notEqual(await tasks.retry(taskId), undefined)
      const { files: [file] = [] } = await end(path)
      assert.equal(await (await call('GET', file?.url ?? '', { 'x-user': 'ann' })).text(), 'attempt 2')
      await eventually(async () => await engine.blobCount() === 1)
    })

    test('are readable only for their owner, for each pair of owners', async (t) => {
      const { ran, call } = await site(t, [report])
      const owners = ['ann', 'Ann', 'ann ', 'bob', '']
      const unknown = JSON.stringify(await (await call('GET', '/v1/tasks/unknown/files/totals.csv')).json())
      for (const owner of owners) {
        const { body: { files } } = await ran('report', {}, owner)
        for (const requester of owners) {
          for (const method of ['GET', 'HEAD']) {
            for (const headers of [{}, { range: 'bytes=0-3' }, { 'if-none-match': '"x"' }]) {
              const whose = requester === '' ? {} : { 'x-user': requester }
              const answer = await call(method, files?.[0]?.url ?? '', { ...headers, ...whose })
              const isOwn = requester.trim() === owner.trim()
              assert.equal(answer.status >= 400, !isOwn, `${method} of ${owner} by ${requester}`)
              if (!isOwn && method === 'GET') assert.equal(JSON.stringify(await answer.json()), unknown)
              else await answer.arrayBuffer()
            }
          }
        }
      }
    })

    test('are deleted with their task', async (t) => {
      const { ran, call, tasks, engine } = await site(t, [report])
      const { body: { taskId, files } } = await ran('report')
      await eventually(async () => await engine.blobCount() === 2)
      assert.equal(await tasks.delete(taskId), true)
      assert.equal((await call('GET', files?.[0]?.url ?? '', { 'x-user': 'ann' })).status, 404)
      await eventually(async () => await engine.blobCount() === 0)
    })

    test('fail the task at once beyond maxFileBytes, without another attempt', async (t) => {
      const runs: number[] = []
      const large = defineTask({
        name: 'large', files: true, attempts: 3, maxFileBytes: 150_000,
        run: async ({ size }: { size: number }, { files, attempt }) => {
          runs.push(attempt)
          await Promise.all([
            files.write('a', pattern(size)), files.write('b', pattern(size)),
          ])
        },
      })
      const { ran, engine } = await site(t, [large])
      assert.equal((await ran('large', { size: 75_000 })).body.status, 'completed')
      const { body } = await ran('large', { size: 75_001 })
      assert.deepEqual([body.status, body.error?.code], ['failed', 'result_files_too_large'])
      assert.deepEqual(runs, [1, 1])
      await eventually(async () => await engine.blobCount() === 2)
    })

    test('are whole if many are written at once', async (t) => {
      const many = defineTask({
        name: 'many', files: true, run: async (_, { files }) => {
          await Promise.all(Array.from({ length: 40 }, (_, n) => files.write(`${n}.txt`, `file ${n}`)))
        },
      })
      const { ran, call, engine } = await site(t, [many])
      const { body: { files = [] } } = await ran('many')
      assert.deepEqual(files.map(({ name }) => name), Array.from({ length: 40 }, (_, n) => `${n}.txt`))
      const texts = await Promise.all(files.map(async ({ url }) => (
        await (await call('GET', url, { 'x-user': 'ann' })).text()
      )))
      assert.deepEqual(texts, Array.from({ length: 40 }, (_, n) => `file ${n}`))
      assert.equal(await engine.blobCount(), 40)
    })
  })
}
