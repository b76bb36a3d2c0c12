import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { parseTokens } from '../../examples/reference-server/auth.js'
import { ConfigError, readConfig } from '../../examples/reference-server/config.js'
import { startServer, type RunningServer } from '../../examples/reference-server/server.js'
import { TOKENS } from './reference.js'
import { resourcesSuite } from './reference-resources-suite.js'
import { ask, Wire } from './wire.js'

describe('users in memory', () => resourcesSuite(async () => 'memory'))

describe('diagnosis and tunnels', () => {
  let server: RunningServer | undefined
  let other: RunningServer | undefined
  let port = 0
  let target = ''
  before(async () => {
    const common = { host: '127.0.0.1', port: 0, tokens: parseTokens(TOKENS) }
    other = await startServer(common)
    target = new URL(other.url).host
    server = await startServer({ ...common, trace: true, connectAllow: [target, '127.0.0.1:1'] })
    port = Number(new URL(server.url).port)
  })
  after(async () => { await Promise.all([server?.stop(), other?.stop()]) })

  const connect = async (authority: string, token: string | null): Promise<string> => {
    const wire = new Wire(port, `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${token === null ? '' : `Authorization: Bearer ${token}\r\n`}\r\n`)
    await wire.until(/\r\n\r\n/)
    wire.socket.destroy()
    return wire.text
  }

  test('SPEC 1.1, 4.1.TRACE: TRACE echoes a request, but for its secrets, where it is switched on', async () => {
    const headers = { 'authorization': 'Bearer reader-1', 'cookie': 'a=b', 'x-hop': '1' }
    const { status, headers: told, body } = await ask(port, 'TRACE', '/api/users/1?x=y', { headers })
    assert.deepEqual([status, told['content-type']], [200, 'message/http'])
    assert.match(body, /^TRACE \/api\/users\/1\?x=y HTTP\/1\.1\r\n/)
    assert.match(body, /x-hop: 1/)
    assert.doesNotMatch(body, /reader-1|a=b/)
    assert.equal((await ask(port, 'TRACE', '/api/users/1')).status, 401)
    assert.equal((await ask(Number(new URL(other?.url ?? '').port), 'TRACE', '/api/users/1', { headers })).status, 405)
  })
  test('SPEC 1.1, 4.1.CONNECT, 7.502: CONNECT opens a tunnel for a writer, to where it may lead', async () => {
    const wire = new Wire(port, `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\nProxy-Authorization: Bearer writer-1\r\n\r\n`)
    await wire.until(/^HTTP\/1\.1 200 [^\r]*\r\n[^]*\r\n\r\n$/)
    wire.socket.write(`GET /api/users?batch_size=1 HTTP/1.1\r\nHost: ${target}\r\nAuthorization: Bearer reader-1\r\nConnection: close\r\n\r\n`)
    assert.match(await wire.end(), /"total":1200/)
    assert.match(await connect(target, null), /^HTTP\/1\.1 401 [^]*www-authenticate: Bearer/)
    assert.match(await connect(target, 'reader-1'), /^HTTP\/1\.1 403 /)
    assert.match(await connect('127.0.0.1:2', 'writer-1'), /^HTTP\/1\.1 403 /)
    assert.match(await connect('127.0.0.1:1', 'writer-1'), /^HTTP\/1\.1 502 [^]*x-request-id: /)
  })
  test('without CONNECT_ALLOW there are no tunnels', async () => {
    const closed = new Wire(Number(new URL(other?.url ?? '').port), 'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n')
    assert.match(await closed.end(), /^HTTP\/1\.1 501 /)
  })
})

test('the settings', () => {
  const { database, trace, connectAllow } = readConfig({})
  assert.deepEqual([database, trace, connectAllow], ['memory', false, []])
  const set = readConfig({ DATABASE: 'postgres://a:b@c:5432/d', TRACE: 'on', CONNECT_ALLOW: 'a:1, [::1]:2' })
  assert.deepEqual([set.database, set.trace, set.connectAllow], ['postgres://a:b@c:5432/d', true, ['a:1', '[::1]:2']])
  for (const env of [{ DATABASE: 'mysql://x' }, { DATABASE: 'postgres:x y' }, { TRACE: 'yes' }, { CONNECT_ALLOW: 'example.com' }]) {
    assert.throws(() => readConfig(env), ConfigError, JSON.stringify(env))
  }
})
