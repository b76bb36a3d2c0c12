// A client reads partial results while their workers are killed or frozen, and while its own connection breaks.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { router, taskEndpoints } from 'longhaul'
import { createClient, readPartialResults } from 'longhaul/client'
import { toNode } from 'longhaul/node'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { listen } from '../../kit/listen.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { program } from '../../servers/program.js'
import { redisUrl } from '../../servers/redis-server.js'
import { openCounting } from './count-work.js'

stopAfterwards()
const urls = { Redis: await redisUrl(), PostgreSQL: await postgresUrl() }

for (const [database, url] of Object.entries(urls)) {
  test(`a reader on ${database} gets each partial result once and in order, although processes die or freeze`, async (t) => {
    const name = `count_${String(process.pid)}`
    const { tasks, counting, numbers, close } = openCounting(url, name, false)
    const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
    const web = await listen(createServer(toNode(router({
      'POST /tasks': endpoints.submit(counting), 'GET /tasks/{id}': endpoints.status,
      'GET /tasks/{id}/partial-results': numbers.endpoint(endpoints),
    }))))
    t.after(async () => {
      await web.close()
      await tasks.close()
      await close()
    })
    const start = (): ServerProcess =>
      new ServerProcess(process.execPath, [...program(join(import.meta.dirname, 'count-worker.ts')), url, name], {})
    let [worker, breaks] = [start(), 0]
    let frozen: ServerProcess | undefined
    const client = createClient({ baseUrl: web.url, retry: { baseMs: 1 } })
    const task = await client.submit('/tasks', {})
    const seen: number[] = []
    let last: string | undefined
    while (seen.at(-1) !== 300) {
      const leave = new AbortController()
      try {
        const options = { ...last !== undefined && { after: last }, signal: leave.signal }
        for await (const { id, value } of readPartialResults<number>(client, task, options)) {
          last = id
          seen.push(value)
          if (seen.length === 60) {
            worker.child.kill('SIGKILL')
            worker = start()
          }
          if (seen.length === 150) {
            worker.child.kill('SIGSTOP')
            frozen = worker
            worker = start()
          }
          // It continues its run, from which the other worker has taken over.
          if (seen.length === 200) frozen?.child.kill('SIGCONT')
          if (seen.length % 50 === 0) {
            breaks++
            leave.abort(new Error('The page is reloaded'))
          }
        }
      } catch (error) {
        assert.match(String(error), /reloaded/)
      }
    }
    assert.deepEqual(seen, Array.from({ length: 300 }, (_, at) => at + 1))
    assert.ok(breaks >= 5 && frozen?.child.exitCode === null)
    assert.equal((await tasks.wait(task.taskId ?? '', { timeoutMs: 20_000 }))?.status, 'completed')
  })
}
