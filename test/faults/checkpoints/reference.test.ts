// An import of the reference server whose worker is killed (issue 19.7), by real processes.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stopAfterwards } from '../../http/kit/process.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { startWeb, startWorker } from '../workers/reference-cluster.js'

stopAfterwards()
const url = await postgresUrl()
const LINES = 60_000
const lines = Array.from({ length: LINES }, (_, at) => (
  at % 1000 === 7 ? 'not JSON' : JSON.stringify({ id: at % 50 + 1, name: `Name ${at} ${'x'.repeat(60)}` })
))
const body = `${lines.join('\n')}\n`

test('19.7: an import of the reference server whose worker is killed goes on at the last committed line, with the same report', async () => {
  const [web, worker] = await Promise.all([startWeb(url), startWorker(url)])
  const headers = { 'content-type': 'application/x-ndjson', prefer: 'respond-async' }
  const accepted = await web.client.ask('POST', '/upload-ndjson', { body, headers })
  assert.equal(accepted.status, 202)
  const path = accepted.headers.get('location') ?? ''
  const read = async () => (await web.client.ask('GET', path)).json as {
    status: string, attempt?: number, progress?: { done: number }, result?: { summary: object, errors: { line: number }[] }
  }
  let before = await read()
  while ((before.progress?.done ?? 0) < body.length / 3) before = await read()
  worker.child.kill('SIGKILL')
  await worker.exited
  assert.equal((await read()).status, 'processing', 'it was killed midway')
  await startWorker(url)
  let now = await read()
  // The record shows the progress of the first run until the second one reports its own.
  let lowest = Infinity
  for (; now.status === 'processing'; now = await read()) lowest = Math.min(lowest, now.progress?.done ?? Infinity)
  assert.ok(lowest >= body.length / 4, `the second run began before byte ${lowest} of ${body.length}`)
  assert.equal(now.status, 'completed')
  assert.equal(now.attempt, 2)
  assert.deepEqual(now.result?.summary, { total: LINES, succeeded: LINES - 60, failed: 60 })
  assert.deepEqual(now.result.errors.map(({ line }) => line), Array.from({ length: 60 }, (_, at) => at * 1000 + 8))
})
