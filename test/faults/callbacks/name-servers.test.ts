// Name servers that never answer. They are this process's own: dns.setServers.
import assert from 'node:assert/strict'
import { createSocket, type RemoteInfo } from 'node:dgram'
import dns from 'node:dns'
import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import { describe, test, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { httpSender } from '../../../src/callbacks/index.js'
import { publicResolve } from '../../../src/callbacks/http-sender.js'
import { receiver, site } from '../../http/kit/callbacks.js'
import { eventually } from '../../kit/wait.js'

type Answer = (name: string, type: number) => Buffer | undefined | 'silent'

/** A name server on loopback, for this process. `answer` gets the name and type of a query. */
async function nameServer(t: TestContext, answer: Answer): Promise<{ readonly names: string[] }> {
  const before = dns.getServers()
  const server = createSocket('udp4')
  const names: string[] = []
  server.on('message', (query: Buffer, { port, address }: RemoteInfo) => {
    const labels: string[] = []
    let at = 12
    for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
      labels.push(query.toString('latin1', at + 1, at + 1 + length))
      at += length + 1
    }
    const name = labels.join('.')
    names.push(name)
    const data = answer(name, query.readUInt16BE(at + 1))
    if (data === 'silent') return
    const head = Buffer.alloc(12, query.subarray(0, 12))
    head.writeUInt16BE(0x8180, 2)
    head.writeUInt16BE(data ? 1 : 0, 6)
    head.fill(0, 8)
    const record =
      data &&
      Buffer.concat([
        Buffer.from([0xc0, 12]),
        query.subarray(at + 1, at + 5),
        Buffer.from([0, 0, 0, 60, 0, data.length]),
        data,
      ])
    server.send(Buffer.concat([head, query.subarray(12, at + 5), ...record ? [record] : []]), port, address)
  })
  server.bind(0, '127.0.0.1')
  await once(server, 'listening')
  dns.setServers([`127.0.0.1:${server.address().port}`])
  t.after(() => {
    dns.setServers(before)
    server.close()
  })
  return { names }
}

describe('hosts whose name servers never respond', () => {
  test('delay neither another lookup of the process nor the callback of another owner', async (t) => {
    const dead = await nameServer(t, () => 'silent')
    const good = await receiver(t)
    const { submit, settled } = site(t, { timeoutMs: 60_000, maxInFlight: 100, concurrency: 100 })
    for (let n = 0; n < 40; n++) await submit(`http://host${n}.example.com/`, {}, `owner${n}`)
    await eventually(() => new Set(dead.names).size === 40)
    assert.ok(['127.0.0.1', '::1'].includes((await lookup('localhost')).address))
    const id = await submit(good.url, {}, 'bob')
    assert.equal((await settled(id)).state, 'delivered')
  })

  test('leave requests for the callbacks of another owner, with the default limits', async (t) => {
    const dead = await nameServer(t, () => 'silent')
    const good = await receiver(t)
    const { submit, settled } = site(t, { timeoutMs: 60_000 })
    for (let n = 0; n < 40; n++) await submit(`http://host${n}.example.com/`, {}, 'ann')
    await eventually(() => new Set(dead.names).size === 15)
    const id = await submit(good.url, {}, 'bob')
    assert.equal((await settled(id)).state, 'delivered')
  })

  test('fail after the time of one attempt, or at once when no attempt waits', async (t) => {
    const dead = await nameServer(t, () => 'silent')
    const sender = httpSender({ timeoutMs: 100 })
    const { signal } = new AbortController()
    const reply = await sender.send({
      url: 'http://slow.example.com/',
      headers: {},
      body: '{}',
      signal,
      admit: () => true,
    })
    assert.deepEqual(reply, { fault: 'timeout' })
    const stop = new AbortController()
    const asked = publicResolve('slower.example.com', stop.signal)
    await eventually(() => dead.names.includes('slower.example.com'))
    stop.abort()
    await assert.rejects(asked, { code: 'ECANCELLED' })
    await assert.rejects(publicResolve('slower.example.com', stop.signal), { name: 'AbortError' })
  })

  test('keep their place until the lookup has ended, even if the attempt is over', async () => {
    let end: (found: never[]) => void = () => undefined
    const promise = new Promise<never[]>((resolve) => { end = resolve })
    let cancelled = false
    let ended = false
    const sender = httpSender({
      timeoutMs: 50, resolve: (_, signal) => {
        signal.addEventListener('abort', () => { cancelled = true })
        return promise
      },
    })
    const { signal } = new AbortController()
    const sent = sender.send({
      url: 'http://slow.example.com/',
      headers: {},
      body: '{}',
      signal,
      admit: () => assert.fail('too late'),
    })
    void sent.finally(() => { ended = true })
    await eventually(() => cancelled)
    await sleep(20)
    assert.equal(ended, false)
    end([])
    assert.deepEqual(await sent, { fault: 'timeout' })
  })
})

describe('a public host name', () => {
  const A = 1

  test('is resolved by the name servers, in both address families', async (t) => {
    await nameServer(t, (_, type) =>
      type === A ? Buffer.from([192, 0, 2, 7]) : Buffer.from('20010db8000000000000000000000001', 'hex'),
    )
    assert.deepEqual(await publicResolve('both.example.com', new AbortController().signal), [
      { address: '192.0.2.7', family: 4 }, { address: '2001:db8::1', family: 6 },
    ])
  })

  test('is called if it has addresses of one family, and is not called at a private address', async (t) => {
    const good = await receiver(t)
    await nameServer(t, (name, type) =>
      type === A && name !== 'none.example.com' ? Buffer.from([127, 0, 0, 1]) : undefined,
    )
    const admitted = { headers: {}, body: '{}', signal: new AbortController().signal, admit: () => true }
    const at = (name: string): string => `http://${name}:${good.port}/`
    assert.deepEqual(await httpSender().send({ ...admitted, url: at('inside.example.com') }), { fault: 'forbidden' })
    const reply = await httpSender({ allow: ['127.0.0.0/8'] }).send({ ...admitted, url: at('inside.example.com') })
    assert.equal('status' in reply && reply.status, 200)
    assert.deepEqual(await httpSender().send({ ...admitted, url: at('none.example.com') }), { fault: 'unreachable' })
  })

  test('is resolved by the operating system if it is allowed', async (t) => {
    const good = await receiver(t)
    const server = await nameServer(t, () => 'silent')
    const sender = httpSender({ allow: ['localhost'] })
    const reply = await sender.send({
      url: `http://localhost:${good.port}/`,
      headers: {},
      body: '{}',
      signal: new AbortController().signal,
      admit: () => true,
    })
    assert.equal('status' in reply && reply.status, 200)
    assert.deepEqual(server.names, [])
  })
})
