// An old worker and a new one on one Redis, and two applications on one Redis, by real processes.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stopAfterwards } from '../../http/kit/process.js'
import { redisForFile } from '../../servers/redis-server.js'
import { completed, startWorker, webOf } from './life-cluster.js'
import { eventually } from '../../kit/wait.js'

stopAfterwards()
const { url } = await redisForFile()
const numbers = Array.from({ length: 20 }, (_, n) => n)

test('an old worker gives back the 20 tasks that only a new one can run: all complete, and onError receives each once', async (t) => {
  const web = webOf(t, url, 'new')
  const old = await startWorker(t, url, 'old')
  const ids = await Promise.all(
    numbers.map((n) => (n % 2 === 0 ? web.submit('audit', {}) : web.submit('report', { year: n, currency: 'EUR' }))),
  )
  await eventually(
    () => ids.every((id) => old.out.includes(`heard ${id} `)),
    30_000,
    'the old worker has met all tasks',
  )
  for (const id of ids) assert.equal((await web.tasks.get(id))?.status, 'queued')
  await startWorker(t, url, 'new')
  await completed(web, ids, ['new'])
  const heard = old.out
    .split('\n')
    .filter((line) => line.startsWith('heard '))
    .map((line) => line.split(' ')[1])
  assert.deepEqual(heard.sort(), [...ids].sort())
  const both = await web.submit('report', { year: 2026 })
  await completed(web, [both], ['old', 'new'])
})

test('a worker runs no task of another application on the same Redis, and all 40 tasks complete', async (t) => {
  const [shop, blog] = [webOf(t, url, 'shop'), webOf(t, url, 'blog')]
  const theirs = await startWorker(t, url, 'blog')
  const shops = await Promise.all(numbers.map((n) => shop.submit('report', { year: n })))
  const blogs = await Promise.all(numbers.map((n) => blog.submit('report', { year: n })))
  await completed(blog, blogs, ['blog'])
  for (const id of shops) {
    const task = await shop.tasks.get(id)
    assert.deepEqual([task?.status, task?.attempt], ['queued', undefined])
  }
  await startWorker(t, url, 'shop')
  await completed(shop, shops, ['shop'])
  assert.ok(!theirs.out.includes('heard'), theirs.out)
})
