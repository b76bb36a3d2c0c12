// docs/guide/redis-and-workers.md: two web processes and a worker, by the three commands that it shows.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Client } from '../../http/kit/reference.js'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { redisForFile } from '../../servers/redis-server.js'

stopAfterwards()

test('the three commands of the guide submit in one process, follow in a second and work in a third', async () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/guide/redis-and-workers.md'), 'utf8')
  const [, block = ''] = /three commands[^]*?```sh\n([^]*?)```/.exec(page) ?? []
  const commands = block.trim().split('\n')
  assert.deepEqual(commands.map((line) => line.replaceAll(/\S+=\S+ /g, '')), ['npm start', 'npm start', 'npm start'])
  const { url } = await redisForFile()
  // Their ports may be taken here, and their Redis is another.
  const [one, other, worker] = commands.map((line) => (
    new ServerProcess('sh', ['-c', line.replace('redis://127.0.0.1:6379', url).replace(/PORT=\d+/, 'PORT=0')], {})
  ))
  assert.ok(one && other && worker)
  await worker.said(/The worker is ready/)
  const [first, second] = [new Client(await one.url()), new Client(await other.url())]
  const token = 'demo-writer'
  const { status, headers } = await first.submit('wait', { ms: 500 }, { token })
  assert.equal(status, 202)
  const final = await second.ended(headers.get('location') ?? '', { token })
  assert.deepEqual([final.json.status, final.json.result.ms], ['completed', 500])
})
