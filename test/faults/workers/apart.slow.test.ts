import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { stopAfterwards } from '../../http/kit/process.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisForFile } from '../../servers/redis-server.js'
import { startWeb, startWorker, type Web } from '../kit/reference-cluster.js'

stopAfterwards()
const databases = { Redis: (await redisForFile()).url, PostgreSQL: await postgresUrl() }

for (const [database, url] of Object.entries(databases))
  describe(`two web processes and a worker on ${database}`, () => {
    let one: Web
    let other: Web
    before(async () => {
      ;[one, other] = await Promise.all([startWeb(url), startWeb(url), startWorker(url)])
    })

    const submit = async (ms: number): Promise<string> => {
      const { status, headers } = await one.client.submit('wait', { ms })
      assert.equal(status, 202)
      return headers.get('location') ?? ''
    }

    test('show a task of one process in the other process, where its end completes a long poll', async () => {
      const path = await submit(300)
      const first = await other.client.ask('GET', path)
      assert.equal(first.json.status, 'processing')
      const final = await other.client.ended(path)
      const answered = Date.now()
      assert.equal(final.json.status, 'completed')
      // A reader that has only its own clock looks 3 s after the request. A notice takes some milliseconds.
      assert.ok(answered - Date.parse(final.json.finishedAt) < 2500, 'the change itself wakes the poll')
    })

    test('send the events of a task as they happen, from the process that did not accept it', async () => {
      const path = await submit(1500)
      const response = await other.client.open('GET', path, { headers: { accept: 'text/event-stream' } })
      const text = await response.text()
      const events = [...text.matchAll(/^data: (.*)$/gm)].map(
        ([, data = '']) => JSON.parse(data) as { status: string; progress?: { done: number } },
      )
      assert.equal(events.at(-1)?.status, 'completed')
      assert.ok(events.filter(({ progress }) => progress).length >= 4, `${String(events.length)} events came`)
    })

    test('abort a running function in the worker when the other process gets the cancel', async () => {
      const path = await submit(60_000)
      while (!(await other.client.ask('GET', path)).json.progress) continue
      assert.equal((await other.client.ask('DELETE', path)).json.status, 'cancelled')
      // Ten such runs fill the worker; the next task starts at once only if they were stopped.
      const more = await Promise.all(Array.from({ length: 10 }, () => submit(60_000)))
      for (const each of more) while (!(await one.client.ask('GET', each)).json.progress) continue
      await Promise.all(more.map((each) => other.client.ask('DELETE', each)))
      // This waits for 20 s at most.
      assert.equal((await other.client.ended(await submit(0))).json.status, 'completed')
    })

    test('run a synchronous request in the web process, and not in the worker', async () => {
      const { status, json } = await one.client.ask('POST', '/api/long-running-task', {
        body: { task: 'wait', data: { ms: 50 } },
      })
      assert.deepEqual([status, json.ms], [200, 50])
    })

    test('make one task of thirty requests with one Idempotency-Key', async () => {
      const answers = await Promise.all(
        Array.from({ length: 30 }, (_, at) =>
          (at % 2 === 0 ? one : other).client.submit('wait', { ms: 300 }, { headers: { 'idempotency-key': 'thirty' } }),
        ),
      )
      assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([202]))
      assert.equal(new Set(answers.map(({ json }) => json.taskId)).size, 1)
      assert.equal(answers.filter(({ headers }) => headers.get('idempotent-replayed') === null).length, 1)
    })
  })
