// Receivers behind TLS, with a certificate made here by openssl.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { httpSender } from '../../../src/callbacks/index.js'
import { listen } from '../../kit/listen.js'

interface Certificate { readonly key: string, readonly cert: string }

/** A certificate that signs itself, for one name. */
function certificateFor(name: string): Certificate {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-tls-'))
  try {
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:prime256v1',
        '-nodes',
        '-days',
        '2',
        '-subj',
        `/CN=${name}`,
        '-addext',
        `subjectAltName=DNS:${name}`,
        '-keyout',
        join(folder, 'key.pem'),
        '-out',
        join(folder, 'cert.pem'),
      ],
      { stdio: 'pipe' },
    )
    return { key: readFileSync(join(folder, 'key.pem'), 'utf8'), cert: readFileSync(join(folder, 'cert.pem'), 'utf8') }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const NAME = 'hooks.example.com'
const own = certificateFor(NAME)
const other = certificateFor('other.example.com')

async function receiver(
  t: TestContext,
  { key, cert }: Certificate,
): Promise<{ url: string; seen: { body: string; name: unknown }[] }> {
  const seen: { body: string; name: unknown }[] = []
  const server = createServer({ key, cert }, (req, res) => {
    let body = ''
    req
      .setEncoding('utf8')
      .on('data', (text: string) => {
        body += text
      })
      .on('end', () => {
        seen.push({ body, name: (req.socket as { servername?: unknown }).servername })
        res.end()
      })
  })
  server.on('tlsClientError', () => undefined)
  const { port, close } = await listen(server)
  t.after(close)
  return { url: `https://${NAME}:${String(port)}/hook`, seen }
}

const send = (url: string, ca?: string | string[]) =>
  httpSender({
    allow: ['127.0.0.1'],
    timeoutMs: 5000,
    resolve: async () => [{ address: '127.0.0.1', family: 4 }],
    ...(ca === undefined ? {} : { ca }),
  }).send({ url, headers: {}, body: '{"a":1}', signal: new AbortController().signal, admit: () => true })

describe('a callback receiver behind TLS', () => {
  test('gets its callback under its host name if its certificate is in `ca`, although the address was resolved before', async (t) => {
    const { url, seen } = await receiver(t, own)
    for (const ca of [own.cert, [other.cert, own.cert]])
      assert.deepEqual(await send(url, ca), { status: 200, retryAfter: undefined })
    assert.deepEqual(seen, [
      { body: '{"a":1}', name: NAME },
      { body: '{"a":1}', name: NAME },
    ])
  })

  test('gets nothing if its certificate is not trusted', async (t) => {
    const { url, seen } = await receiver(t, own)
    for (const ca of [undefined, other.cert]) assert.deepEqual(await send(url, ca), { fault: 'unreachable' })
    assert.deepEqual(seen, [])
  })

  test('gets nothing if its certificate is for another host name', async (t) => {
    const { url, seen } = await receiver(t, other)
    assert.deepEqual(await send(url, other.cert), { fault: 'unreachable' })
    assert.deepEqual(seen, [])
  })
})
