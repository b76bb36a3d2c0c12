// examples/postgres: a web process and a worker on one database, and what SIGTERM does to both.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client } from '../../http/kit/reference.js'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { program } from '../../servers/program.js'

stopAfterwards()
const url = await postgresUrl()

function start(worker: 'on' | 'off'): ServerProcess {
  const env = { DATABASE_URL: url, WORKER: worker, PORT: '0' }
  return new ServerProcess(process.execPath, program('examples/postgres/main.ts'), env)
}

test('the example on PostgreSQL accepts in one process and works in another, and both end by themselves', async () => {
  const [web, worker] = [start('off'), start('on')]
  const client = new Client(await web.url())
  await worker.url()
  const begun = await client.ask('POST', '/reports', { body: { year: 2025 }, headers: { prefer: 'respond-async' } })
  assert.equal(begun.status, 202)
  const path = begun.headers.get('location') ?? ''
  const final = await client.ended(path)
  assert.deepEqual(final.json.result, { message: 'The report of 2025 is ready.', months: 12 })
  const second = await client.ask('POST', '/reports', { body: { year: 2026 }, headers: { prefer: 'respond-async' } })
  assert.equal((await client.ask('DELETE', second.headers.get('location') ?? '')).status < 300, true)
  for (const each of [web, worker]) {
    each.child.kill('SIGTERM')
    assert.deepEqual(await each.exited, { code: 0, signal: null }, each.err)
    assert.equal(each.err, '')
  }
})
