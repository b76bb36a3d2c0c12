// Nothing that a client writes as a callback URL, and nothing that a name resolves to, reaches a loopback canary.
import assert from 'node:assert/strict'
import { createServer, type Server, type AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { httpSender } from '../../../src/callbacks/index.js'
import { isHttpError } from '../../../src/http/errors.js'
import { site } from '../../http/kit/callbacks.js'
import { coreOf } from '../../../src/tasks/tasks.js'

let touched = 0
const canaries: Server[] = []
let port = 0

before(async () => {
  const listen = async (host: string, at: number): Promise<number> => {
    const canary = createServer((socket) => {
      touched++
      socket.on('error', () => undefined)
      socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')
    })
    canaries.push(canary)
    await new Promise<void>((resolve, reject) => { canary.once('error', reject).listen(at, host, resolve) })
    return (canary.address() as AddressInfo).port
  }
  // All of this machine, so that 0.0.0.0, other loopback addresses and its own address lead here too.
  port = await listen('0.0.0.0', 0)
  await listen('::1', port).catch(() => 0)
})
after(() => { for (const canary of canaries) canary.close() })

/** Hosts; each is tried as `http://host:port/`. */
const HOSTS = [
  // loopback, in every way to write it
  '127.0.0.1',
  '127.0.0.1.',
  '127.1',
  '127.0.1',
  '127.255.255.254',
  '2130706433',
  '017700000001',
  '0x7f000001',
  '0x7f.1',
  '0177.0.0.1',
  '0x7f.0x0.0x0.0x1',
  '00000177.0.0.1',
  '127.0.0.0x1',
  '%31%32%37.0.0.1',
  '127%2e0%2e0%2e1',
  '127。0。0。1',
  '１２７．０．０．１',
  '①②⑦.⓪.⓪.①',
  '127｡0｡0｡1',
  // this host, and what stands for nothing
  '0.0.0.0',
  '0',
  '0x0',
  '00',
  '[::]',
  '0.1.2.3',
  // names
  'localhost',
  'LOCALHOST',
  'localhost.',
  'a.localhost',
  'ｌｏｃａｌｈｏｓｔ',
  'lоcalhost',
  'printer.local',
  'metadata.google.internal',
  'db.internal',
  'redis',
  'router.lan',
  'nas.home.arpa',
  '1.0.0.127.in-addr.arpa',
  'host.docker.internal',
  'kubernetes.default.svc.cluster.local',
  'x.localdomain',
  // IPv6, and IPv4 in it
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[0000::0001]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[0:0:0:0:0:ffff:127.0.0.1]',
  '[::127.0.0.1]',
  '[::7f00:1]',
  '[64:ff9b::127.0.0.1]',
  '[64:ff9b::7f00:1]',
  '[64:ff9b:1::7f00:1]',
  '[2002:7f00:1::]',
  '[2002:7f00:0001::1]',
  '[2001:0:7f00:1::]',
  '[::ffff:0:127.0.0.1]',
  '[2001:db8::1]',
  '[fe80::1]',
  '[fe80::1%25lo]',
  '[fe80::1%lo]',
  '[fc00::1]',
  '[fd12:3456::1]',
  '[ff02::1]',
  '[100::1]',
  '[fec0::1]',
  '[2001:2::1]',
  '[5f00::1]',
  '[2606:4700::5efe:127.0.0.1]',
  '[3fff::1]',
  '[::8.8.8.8]',
  '[::ffff:8.8.8.8]',
  // private, and what is not for the public
  '10.0.0.1',
  '10.1',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.0.1',
  '192.168.257',
  '169.254.169.254',
  '169.254.169.254.',
  '2852039166',
  '0xa9fea9fe',
  '[::ffff:a9fe:a9fe]',
  '[fd00:ec2::254]',
  '100.64.0.1',
  '100.100.100.200',
  '198.18.0.1',
  '192.0.0.192',
  '192.0.2.1',
  '198.51.100.1',
  '203.0.113.1',
  '224.0.0.1',
  '239.255.255.255',
  '240.0.0.1',
  '255.255.255.255',
  '192.88.99.1',
  '168.63.129.16.local',
  // hosts of clouds
  '168.63.129.16',
  '168.4161808',
  '0xa83f8110',
  '[::ffff:168.63.129.16]',
  '[64:ff9b::168.63.129.16]',
  '[2002:a83f:8110::1]',
  '161.26.0.10',
  '166.9.14.1',
  '[fd20:ce::254]',
  '[fe80::a9fe:a9fe]',
]

/** Whole URLs; `PORT` stands for the canary's. */
const URLS = [
  'http://user@127.0.0.1:PORT/',
  'http://example.com@127.0.0.1:PORT/',
  'http://127.0.0.1:PORT@example.com/',
  'http://user:pass@example.com/',
  'http://@example.com/',
  'http://:@example.com/',
  'http://example.com\\@127.0.0.1:PORT/',
  'http:\\\\127.0.0.1:PORT\\',
  'http:127.0.0.1:PORT',
  'http:/127.0.0.1:PORT',
  'http:///127.0.0.1:PORT/',
  '//127.0.0.1:PORT/',
  '/hook',
  'hook',
  '',
  ' http://127.0.0.1:PORT/',
  'http://127.0.0.1:PORT/ ',
  'ht\ntp://127.0.0.1:PORT/',
  'http://127.0.\t0.1:PORT/',
  'http://exa mple.com/',
  'http://example.com/\r\nX: y',
  'HTTP://127.0.0.1:PORT/',
  'https://127.0.0.1:PORT/',
  'ftp://example.com/',
  'file:///etc/passwd',
  'gopher://127.0.0.1:PORT/_x',
  'ws://127.0.0.1:PORT/',
  'javascript:alert(1)',
  'data:text/plain,x',
  'unix:/var/run/docker.sock',
  'http://unix:/var/run/docker.sock',
  'http+unix://%2Fvar%2Frun%2Fdocker.sock/',
  'blob:http://127.0.0.1:PORT/',
  'http://',
  'http://#',
  'http://?',
  'http://.',
  'http://..',
  'http://[',
  'http://[::1',
  'http://example.com:99999/',
  `http://example.com/${'x'.repeat(3000)}`,
]

describe('a callback URL', () => {
  const forms = [...HOSTS.map((host) => `http://${host}:PORT/`), ...URLS]
  test(`SPEC 4.8: is rejected at once in ${String(forms.length)} forms that do not lead to a public host, and is never called`, async (t) => {
    const { tasks, submit } = site(t, { allow: [] })
    const sender = httpSender({ timeoutMs: 500 })
    assert.ok(forms.length >= 60, 'a table of at least 60')
    const { signal } = new AbortController()
    for (const form of forms) {
      const url = form.replaceAll('PORT', String(port))
      await assert.rejects(
        submit(url),
        (error) =>
          isHttpError(error) &&
          error.status === 400 &&
          ['callback_url_forbidden', 'invalid_callback_url'].includes(error.code),
        JSON.stringify(form).slice(0, 100),
      )
      // And should one have found its way past the check, say from a queue of an older version: it is judged again.
      const reply = await sender.send({ url, headers: {}, body: '{}', signal, admit: () => true })
      assert.deepEqual(reply, { fault: 'forbidden' }, form.slice(0, 100))
    }
    for (const url of [1, null, {}, ['http://example.com/']]) {
      await assert.rejects(
        coreOf(tasks).checkCallback(url, undefined),
        (error) => isHttpError(error) && error.code === 'invalid_callback_url',
      )
    }
    assert.equal(touched, 0)
  })

  test('is accepted if its host is public', async (t) => {
    const { tasks } = site(t, { allow: [] })
    for (const url of [
      'https://example.com/hook', 'http://example.com:8080/', 'https://8.8.8.8/',
      'https://[2606:4700:4700::1111]/', 'https://bücher.example/', 'https://example.com./',
      'https://a-b_c.example.co.uk/x?y=z#f', 'https://example.com/@user',
    ])
      assert.equal(await coreOf(tasks).checkCallback(url, undefined), url)
  })
})

describe('a host name in a callback URL', () => {
  const bad = [
    '127.0.0.1', '10.0.0.7', '169.254.169.254', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1',
    '64:ff9b::7f00:1', '2002:7f00:1::', '::7f00:1', 'fe80::1%lo', 'fd00::1', '0.0.0.0', '::',
    'nonsense', '168.63.129.16', '::ffff:a83f:8110', '64:ff9b::a83f:8110', '100.100.100.200',
    '192.0.0.192', 'fd00:ec2::254',
  ]
  for (const address of bad) {
    test(`is not called if it resolves to ${address}, alone or among other addresses`, async (t) => {
      const family = address.includes(':') ? 6 : 4
      for (const addresses of [[{ address, family }], [{ address: '8.8.8.8', family: 4 }, { address, family }]]) {
        const { submit, settled } = site(t, { allow: [], resolve: async () => addresses })
        const { state, fault, attempts } = await settled(await submit(`http://hooks.example.com:${port}/`))
        assert.deepEqual([state, fault, attempts], ['failed', 'forbidden', 1])
      }
      assert.equal(touched, 0)
    })
  }

  test('is checked at each attempt, and resolved once for each connection', async (t) => {
    let asked = 0
    // First an address that nobody answers at, then the canary: what a rebinding name server does.
    const resolve = async () => [{ address: asked++ === 0 ? '2001:db8::1' : '127.0.0.1', family: asked === 1 ? 6 : 4 }]
    const { submit, settled } = site(t, { allow: ['2001:db8::/32'], resolve, timeoutMs: 200 })
    const { state, fault, attempts } = await settled(await submit(`http://rebind.example.com:${port}/`))
    assert.deepEqual([state, fault, attempts], ['failed', 'forbidden', 2])
    assert.equal(asked, 2, 'a second look-up for one connection could give something else than was judged')
    assert.equal(touched, 0)
  })

  test('may resolve to any address if the name is allowed, or to an address in an allowed range', async (t) => {
    const resolve = async () => [{ address: '127.0.0.1', family: 4 }]
    const before = touched
    for (const allow of [['hooks.internal'], ['127.0.0.0/8']]) {
      const { submit, settled } = site(t, { allow, resolve })
      const host = allow[0] === 'hooks.internal' ? 'hooks.internal' : 'hooks.example.com'
      assert.equal((await settled(await submit(`http://${host}:${port}/`))).state, 'delivered')
    }
    assert.equal(touched, before + 2, 'the canary would have noticed')
    touched = before
  })

  test('is retried and given up if it does not resolve', async (t) => {
    for (const resolve of [
      async () => [],
      async () => {
        throw new Error('no such name')
      },
      () => {
        throw new Error('at once')
      },
    ]) {
      const { submit, settled } = site(t, { resolve })
      const { state, fault, attempts } = await settled(await submit('http://gone.example.com/'))
      assert.deepEqual([state, fault, attempts], ['failed', 'unreachable', 3])
    }
  })
})

test('a callback is sent without the proxy of the environment', async (t) => {
  const names = ['http_proxy', 'HTTP_PROXY', 'https_proxy', 'HTTPS_PROXY', 'all_proxy', 'NODE_USE_ENV_PROXY']
  const old = names.map((name) => process.env[name])
  t.after(() => {
    names.forEach((name, at) => {
      const value = old[at]
      if (value === undefined) Reflect.deleteProperty(process.env, name)
      else process.env[name] = value
    })
  })
  for (const name of names) process.env[name] = name === 'NODE_USE_ENV_PROXY' ? '1' : `http://127.0.0.1:${port}`
  const { signal } = new AbortController()
  const sender = httpSender({
    timeoutMs: 200,
    allow: ['2001:db8::/32'],
    resolve: async () => [{ address: '2001:db8::1', family: 6 }],
  })
  const reply = await sender.send({ url: 'http://example.com/', headers: {}, body: '{}', signal, admit: () => true })
  assert.ok('fault' in reply, JSON.stringify(reply))
  assert.equal(touched, 0)
})
