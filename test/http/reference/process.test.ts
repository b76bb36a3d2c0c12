import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { describe, test } from 'node:test'
import { ServerProcess, startProcess, stopAfterwards } from '../kit/process.js'
import { Client } from '../kit/reference.js'
import { Wire } from '../kit/wire.js'

stopAfterwards()

const WRITER = { token: 'demo-writer' }

async function ready(server: ServerProcess): Promise<Client> {
  return new Client(await server.url())
}

describe('the start of the reference server', () => {
  test('npm start listens on a free port, and prints its address in one line', async () => {
    const server = new ServerProcess('npm', ['start'], { PORT: '0' })
    const client = await ready(server)
    assert.notEqual(new URL(client.url).port, '0')
    assert.equal(server.out.match(/http:\/\//g)?.length, 1)
    assert.match(server.out, /demo-reader, demo-writer, demo-admin/)
    assert.equal((await client.submit('wait', { ms: 0 }, WRITER)).status, 202)

    server.child.kill('SIGTERM')
    assert.deepEqual(await server.exited, { code: 0, signal: null })
  })

  test('works for several servers at once', async () => {
    const servers = Array.from({ length: 3 }, () => startProcess())
    const clients = await Promise.all(servers.map(ready))
    assert.equal(new Set(clients.map(({ url }) => url)).size, 3)
    const [one, two] = clients
    assert.ok(one && two)
    const begun = await one.submit('wait', { ms: 0 }, WRITER)
    const path = begun.headers.get('location') ?? ''
    assert.equal((await one.ended(path, WRITER)).json.status, 'completed')
    assert.equal((await two.ask('GET', path, WRITER)).status, 404)
    for (const { child } of servers) child.kill('SIGTERM')
    for (const { exited } of servers) assert.deepEqual(await exited, { code: 0, signal: null })
  })

  test('uses HOST and the configured tokens, and does not print the tokens', async () => {
    const server = startProcess({ HOST: '::1', AUTH_TOKENS: 's3cret=ann:writer', NODE_ENV: 'production' })
    const client = await ready(server)
    assert.match(client.url, /^http:\/\/\[::1\]:[0-9]+$/)
    assert.equal((await client.submit('wait', { ms: 0 }, WRITER)).status, 401)
    assert.equal((await client.submit('wait', { ms: 0 }, { token: 's3cret' })).status, 202)
    assert.doesNotMatch(server.out + server.err, /s3cret|demo-/)
    server.child.kill('SIGTERM')
    await server.exited
  })

  const wrong: [env: Record<string, string>, what: RegExp][] = [
    [{ PORT: 'http' }, /^PORT must be a whole number from 0 to 65535 .*not "http"\.\n$/],
    [{ AUTH_TOKENS: 'hunter2' }, /^AUTH_TOKENS: entry 1 is not token=subject:role, as in s3cret=alice:writer\.\n$/],
    [{ NODE_ENV: 'production' }, /^The demo tokens are no secret.*set AUTH_TOKENS.*\n$/]
  ]
  for (const [env, what] of wrong) {
    test(`fails with ${JSON.stringify(env)} and says what to do`, async () => {
      const server = startProcess(env)
      assert.deepEqual(await server.exited, { code: 1, signal: null })
      assert.match(server.err, what)
      assert.equal(server.out, '')
    })
  }

  test('fails on a port in use and says what to do', async () => {
    const first = startProcess()
    const { port } = new URL(await first.url())
    const second = startProcess({ PORT: port })
    assert.deepEqual(await second.exited, { code: 1, signal: null })
    assert.equal(second.err, `Port ${port} is taken; set PORT to another one, or to 0 for a free one.\n`)
    first.child.kill('SIGTERM')
    await first.exited
  })
})

describe('the stop of the reference server', () => {
  test('lets responses and tasks finish after SIGTERM, and a second SIGTERM changes nothing', async () => {
    const server = startProcess()
    const client = await ready(server)
    const { port } = new URL(client.url)
    const idle = new Wire(Number(port), 'GET / HTTP/1.1\r\nHost: x\r\n\r\n')
    await idle.until(/<\/pre>/)

    // A background task, watched until its end; a direct answer; a long poll of another task.
    const task = (await client.submit('wait', { ms: 1500 }, WRITER)).headers.get('location') ?? ''
    const events = await client.open('GET', task, { ...WRITER, headers: { accept: 'text/event-stream' } })
    const direct = client.ask('POST', '/api/long-running-task', {
      ...WRITER,
      body: { task: 'wait', data: { ms: 1500 } },
    })
    const other = await client.submit('wait', { ms: 1500 }, WRITER)
    const polled = client.ended(`/job-status/${other.json.taskId}`, WRITER)
    // What was sent before is known to have arrived once a later request is answered.
    await client.ask('GET', task, WRITER)

    server.child.kill('SIGTERM')
    await idle.end()
    server.child.kill('SIGTERM')
    server.child.kill('SIGINT')
    // A connection of its own: fetch may hold one from before.
    const [refused] = await once(connect(Number(port), '127.0.0.1'), 'error') as [NodeJS.ErrnoException]
    assert.equal(refused.code, 'ECONNREFUSED')

    const done = await direct
    assert.equal(done.status, 200)
    assert.equal(done.headers.get('connection'), 'close')
    assert.deepEqual(done.json, { message: 'Waited for 1500 ms.', ms: 1500 })
    assert.equal((await polled).json.state, 'completed')
    assert.match(await events.text(), /"status":"completed"/)
    assert.deepEqual(await server.exited, { code: 0, signal: null })
    assert.equal(server.err, '')
  })
})
