import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stopAfterwards } from '../../http/kit/process.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisForFile } from '../../servers/redis-server.js'
import { startWeb, startWorker } from '../kit/reference-cluster.js'
import { pause } from '../../kit/wait.js'

stopAfterwards()
const databases = { Redis: (await redisForFile()).url, PostgreSQL: await postgresUrl() }

for (const [database, url] of Object.entries(databases)) {
  test(`a worker on ${database} that is killed with twenty active tasks loses none, and all end in at most two runs`, async () => {
    const [web, other, worker] = await Promise.all([startWeb(url), startWeb(url), startWorker(url)])
    const answers = await Promise.all(Array.from({ length: 20 }, () => web.client.submit('wait', { ms: 1500 })))
    for (const { status } of answers) assert.equal(status, 202)
    const paths = answers.map(({ headers }) => headers.get('location') ?? '')
    // Some run, and some have not had their turn.
    for (;;) {
      const shown = await Promise.all(paths.map((path) => other.client.ask('GET', path)))
      if (shown.filter(({ json }) => json.progress).length === 10) break
    }
    worker.child.kill('SIGKILL')
    await worker.exited
    const next = await startWorker(url)
    const ended = await Promise.all(paths.map(async (path) => (await other.client.ended(path)).json))
    for (const task of ended) {
      assert.equal(task.status, 'completed', JSON.stringify(task))
      assert.ok(task.attempt <= 2, JSON.stringify(task))
    }
    next.child.kill('SIGTERM')
    assert.deepEqual(await next.exited, { code: 0, signal: null })
  })

  test(`a worker on ${database} that freezes for longer than its lease cannot change the final state of the other worker`, async (t) => {
    const [web, frozen] = await Promise.all([startWeb(url), startWorker(url)])
    const submitted = await web.client.submit('wait', { ms: 3000 })
    const path = submitted.headers.get('location') ?? ''
    while (!(await web.client.ask('GET', path)).json.progress) await pause(20)
    frozen.child.kill('SIGSTOP')
    t.after(() => {
      frozen.child.kill('SIGKILL')
    })
    await startWorker(url)
    let final = await web.client.ended(path)
    while (final.json.status === 'processing') final = await web.client.ended(path)
    assert.equal(final.json.status, 'completed')
    frozen.child.kill('SIGCONT')
    // The late one finishes its own run, finds that the record is no longer its own, and says nothing.
    await pause(4000)
    const later = await web.client.ask('GET', path)
    assert.equal(later.text, final.text)
    assert.equal(later.headers.get('etag'), final.headers.get('etag'))
    assert.equal(frozen.child.exitCode, null, `the late worker lives on: ${frozen.err}`)
  })
}
