// The requests of docs/guide/protocol.md, sent to a server: it responds as the page says.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createServer } from 'node:http'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { createTasks, defineTask, empty, httpError, router, taskEndpoints } from 'longhaul'
import { verifyCallback } from 'longhaul/callbacks'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { partialResults } from 'longhaul/partial'
import { resumableUpload } from 'longhaul/uploads'
import { signedHeaders } from '../../../src/callbacks/message.js'
import { listen } from '../../kit/listen.js'
import { blocks, section } from '../kit/doc-page.js'
import { root } from '../kit/process.js'

const guide = (name: string) => readFileSync(join(root, 'docs/guide', name), 'utf8')
const page = guide('protocol.md') + guide('protocol-more.md')
const ID = '8TzN2cVbQ1uVYk3hJb0a5w'
const CSV = 'month,total\n2026-01,10000\n'

const { engine, store, blobs } = memory()
const words = partialResults<string>({ store })
const report = defineTask({
  name: 'report',
  files: true,
  run: async ({ year }: { year: number }, { progress, signal, files }) => {
    if (year === 2001) throw httpError('unprocessable', { message: 'There is no data of 2001.' })
    if (year === 2002) await files.write('report.csv', CSV, { type: 'text/csv' })
    else {
      progress(5, 12)
      await new Promise((resolve) => { signal.addEventListener('abort', resolve) })
    }
    return { message: 'Ready.' }
  },
})
const answer = defineTask({
  name: 'answer',
  external: words.external,
  run: words.run(async (_input: object, { emit }) => {
    await emit('Hello')
    await emit('World')
  }),
})
const tasks = createTasks({ engine, store, blobs, definitions: [report, answer] })
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: () => 'ann' })
const answers = taskEndpoints(tasks, { statusPath: '/answers/{id}', owner: () => 'ann' })
const films = resumableUpload(() => empty(204), { blobs, store, owner: 'anyone', uploadPath: '/uploads/{id}' })
const server = createServer(toNode(router({
  'POST /reports': endpoints.submit(report),
  'GET /tasks': endpoints.list,
  'GET|HEAD|DELETE /tasks/{id}': endpoints.status,
  'POST /tasks/{id}/retry': endpoints.retry,
  'GET|HEAD /tasks/{id}/files/{name}': endpoints.files,
  'POST /answers': answers.submit(answer),
  'GET|HEAD|DELETE /answers/{id}': answers.status,
  'GET|HEAD /answers/{id}/partial-results': words.endpoint(answers),
  'POST|OPTIONS /films': films.create,
  'GET|HEAD|PATCH|DELETE|OPTIONS /uploads/{id}': films.resource,
})))

let url = ''
let close: () => unknown
before(async () => {
  ({ url, close } = await listen(server))
})
after(async () => {
  await tasks.close({ drainMs: 0 })
  await close()
})

interface Exchange {
  readonly method: string
  readonly path: string
  readonly headers: Record<string, string>
  readonly body: string
  readonly response: { readonly status: number, readonly headers: Record<string, string>, readonly body: string }
}

function parsePart(text: string) {
  const [head = '', ...rest] = text.split('\n\n')
  const [line = '', ...fields] = head.split('\n')
  const headers = Object.fromEntries(fields.filter((field) => field !== '').map((field) => {
    const at = field.indexOf(': ')
    return [field.slice(0, at).toLowerCase(), field.slice(at + 2)]
  }))
  return { line, headers, body: rest.join('\n\n') }
}

/** The one exchange of a section of the page. */
function exchangeOf(title: string): Exchange {
  const [block = '', ...others] = blocks(section(page, title), 'http')
  assert.deepEqual(others, [], `one exchange below ${title}`)
  const split = block.indexOf('\nHTTP/1.1 ') + 1
  const { line, headers, body } = parsePart(block.slice(0, split).trimEnd())
  const [method = '', path = ''] = line.split(' ')
  const shown = parsePart(block.slice(split))
  return { method, path, headers, body, response: { ...shown, status: Number(shown.line.split(' ')[1]) } }
}

/** Replaces what differs from run to run. */
const stable = (text: string, id: string): string => text.replaceAll(id, ID)
  .replaceAll(/\b\d{13}-\d+\b/g, '<version>')
  .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>')
  .replaceAll(/\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT/g, '<date>')
  .replaceAll(/^id: [a-z0-9]+-\d+$/gm, 'id: <result>')
  .replaceAll(/^id: [a-z0-9]+-\d+-\d+$/gm, 'id: <end>')
  .replaceAll(/cursor=\w+/g, 'cursor=<cursor>')

async function submit(path: string, body: object): Promise<string> {
  const response = await fetch(url + path, {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'content-type': 'application/json', 'prefer': 'respond-async' },
  })
  const { taskId } = await response.json() as { taskId: string }
  return taskId
}

const begun = async (): Promise<string> => {
  const id = await submit('/reports', { year: 2026 })
  for (;;) {
    const { progress } = await (await fetch(`${url}/tasks/${id}`)).json() as { progress?: object }
    if (progress) return id
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** Sends the request of a section for the task `id`, and compares the response with the page. */
async function check(title: string, id: string, changed: Record<string, string> = {}): Promise<void> {
  const { method, path, headers, body, response: shown } = exchangeOf(title)
  const response = await fetch(url + path.replace(ID, id), {
    method, headers: { ...headers, ...changed }, ...body !== '' && { body },
  })
  assert.equal(response.status, shown.status)
  const text = await response.text()
  const isJson = shown.headers['content-type'] === 'application/json'
  const [, own = id] = isJson && text.includes('"taskId"') ? /"taskId":"([^"]+)"/.exec(text) ?? [] : []
  for (const [name, value] of Object.entries(shown.headers)) {
    const actual = response.headers.get(name) ?? ''
    if (name === 'preference-applied' && changed['prefer'] !== undefined) assert.equal(actual, changed['prefer'])
    // The tag of a list is a digest of its items.
    else if (name !== 'etag' || title !== 'List') assert.equal(stable(actual, own), stable(value, ID), name)
    else assert.match(actual, /^"[\w-]{22}"$/)
  }
  if (isJson) assert.deepEqual(JSON.parse(stable(text, own)), JSON.parse(stable(shown.body, ID)))
  else assert.equal(stable(text, own), stable(shown.body, ID))
}

describe('the server responds as docs/guide/protocol.md shows', () => {
  test('submit', () => check('Submit', ''))

  test('status', async () => check('Status', await begun()))

  test('a wait for a change gets a 304 with Preference-Applied if nothing has changed', async () => {
    const id = await begun()
    const { headers } = await fetch(`${url}/tasks/${id}`)
    await check('Wait for a change', id, { 'if-none-match': headers.get('etag') ?? '', 'prefer': 'wait=1' })
  })

  test('events', async () => {
    const id = await begun()
    setTimeout(() => { void tasks.cancel(id) }, 200)
    await check('Events', id)
  })

  test('cancel', async () => check('Cancel and delete', await begun()))

  test('retry of a task that fails again', async () => {
    const id = await submit('/reports', { year: 2001 })
    await fetch(`${url}/tasks/${id}`, { headers: { prefer: 'wait=20' } })
    await check('Retry', id)
  })

  test('file', async () => {
    const id = await submit('/reports', { year: 2002 })
    await fetch(`${url}/tasks/${id}`, { headers: { prefer: 'wait=20' } })
    await check('Files', id)
  })

  test('partial results', async () => {
    const id = await submit('/answers', {})
    await fetch(`${url}/answers/${id}`, { headers: { prefer: 'wait=20' } })
    const {
      results: [first],
    } = (await (await fetch(`${url}/answers/${id}/partial-results`)).json()) as { results: [{ id: string }] }
    await check('Partial results', id, { 'last-event-id': first.id })
  })

  test('list', async () => {
    await tasks.cancel(await begun())
    await check('List', '')
  })
})

describe('the server of docs/guide/protocol.md', () => {
  const ask = async (
    method: string,
    path: string,
    headers: Record<string, string> = {},
    body?: string | Uint8Array<ArrayBuffer>,
  ) => {
    const response = await fetch(url + path, { method, headers, ...(body !== undefined && { body }) })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }
  const json = { 'content-type': 'application/json' }

  test('limits a wait to 30 seconds, and shows it in Preference-Applied', async () => {
    const id = await submit('/reports', { year: 2002 })
    assert.equal(
      (await ask('GET', `/tasks/${id}`, { prefer: 'wait=600' })).headers.get('preference-applied'),
      'wait=30',
    )
  })

  test('ends a wait with If-None-Match at the first change', async () => {
    const id = await submit('/reports', { year: 2026 })
    const { status, text } = await ask('GET', `/tasks/${id}`, { 'prefer': 'wait=20', 'if-none-match': '"1-1"' })
    assert.equal(status, 200)
    assert.match(text, /"status":"processing"/)
  })

  test('responds to a Last-Event-ID with 204 if the status was final then, and with the status otherwise', async () => {
    const id = await submit('/reports', { year: 2001 })
    const accept = 'text/event-stream'
    const { text } = await ask('GET', `/tasks/${id}`, { accept })
    const ids = [...text.matchAll(/^id: (.+)$/gm)].map(([, each = '']) => each)
    const last = ids.at(-1) ?? ''
    assert.equal((await ask('GET', `/tasks/${id}`, { accept, 'last-event-id': last })).status, 204)
    const again = await ask('GET', `/tasks/${id}`, { accept, 'last-event-id': `${last}0` })
    assert.match(again.text, /^retry: 2000\n\nid: .+\ndata: \{.*"status":"failed".*\}\n\n$/)
  })

  test('ends a stream of partial results after the last result, rejects a bad id with 400, and shows a gap', async () => {
    const path = `/answers/${await submit('/answers', {})}/partial-results`
    const accept = 'text/event-stream'
    const all = await ask('GET', path, { accept })
    const [, second = '', end = ''] = [...all.text.matchAll(/^id: (.+)$/gm)].map(([, each = '']) => each)
    assert.notEqual(end, second)
    assert.equal((await ask('GET', path, { accept, 'last-event-id': end })).status, 204)
    assert.match(
      (await ask('GET', path, { accept, 'last-event-id': second })).text,
      /^retry: 2000\n\nid: \S+\nevent: end\n/,
    )
    assert.match((await ask('GET', path, { accept, 'last-event-id': 'x y' })).text, /"code":"invalid_query"/)
    assert.match((await ask('GET', `${path}?after=x-1`)).text, /"gap":true,"results":\[\{.*"Hello".*"World"/)
  })

  test('responds to a cancel with 412 for an old ETag, with 200 for * or a repeated cancel, and with 400 for a key', async () => {
    const path = `/tasks/${await begun()}`
    assert.equal((await ask('DELETE', path, { 'if-match': '"1-1"' })).status, 412)
    assert.match((await ask('DELETE', path, { 'idempotency-key': 'k' })).text, /"code":"idempotency_not_supported"/)
    assert.equal((await ask('DELETE', path, { 'if-match': '*' })).status, 200)
    assert.equal((await ask('DELETE', path)).status, 200)
  })

  test('sends no Location with a rejected retry', async () => {
    const { status, headers } = await ask('POST', `/tasks/${await begun()}/retry`, { prefer: 'wait=20' })
    assert.deepEqual([status, headers.get('location')], [409, null])
  })

  test('responds with 415 to a submit or a retry with gzip', async () => {
    const id = await begun()
    for (const path of ['/reports', `/tasks/${id}/retry`]) {
      const { status, headers } = await ask(
        'POST',
        path,
        { ...json, 'content-encoding': 'gzip' },
        new Uint8Array(gzipSync('{}')),
      )
      assert.deepEqual([status, headers.get('accept-encoding')], [415, 'identity'])
    }
  })

  test('ends a stream of HTTP/1.0 by closing the connection', async () => {
    const id = await submit('/reports', { year: 2001 })
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write(`GET /tasks/${id} HTTP/1.0\r\nAccept: text/event-stream\r\n\r\n`)
    let text = ''
    for await (const chunk of socket.setEncoding('utf8')) text += String(chunk)
    assert.match(text, /\r\n\r\nretry: 2000\n\n[^]*"status":"failed".*\}\n\n$/)
  })

  test('reads a chunked body', async () => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write('POST /reports HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n'
      + 'Prefer: respond-async\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{"year":\r\n5\r\n2002}\r\n0\r\n\r\n')
    let text = ''
    for await (const chunk of socket.setEncoding('utf8')) text += String(chunk)
    assert.match(text, /^HTTP\/1\.1 202 /)
  })
})

test('a GET of an upload ends a running PATCH, as docs/guide/uploads.md says, and 104 needs Upload-Draft-Interop-Version', async () => {
  const created = await fetch(`${url}/films`, { method: 'POST', headers: { 'upload-complete': '?0' } })
  const path = created.headers.get('location') ?? ''
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.write(
    `PATCH ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/partial-upload\r\n` +
      'Upload-Offset: 0\r\nUpload-Complete: ?0\r\nContent-Length: 1000\r\n\r\nabc',
  )
  await new Promise((resolve) => setTimeout(resolve, 200))
  const { status, headers } = await fetch(url + path)
  assert.deepEqual([status, headers.get('upload-offset')], [204, '3'])
  let text = ''
  for await (const chunk of socket.setEncoding('utf8')) text += String(chunk)
  assert.match(text, /^HTTP\/1\.1 409 [^]*"code":"upload_superseded"/)
  const whole = connect(Number(new URL(url).port), '127.0.0.1')
  whole.write(
    'POST /films HTTP/1.1\r\nHost: x\r\nConnection: close\r\nUpload-Complete: ?1\r\nContent-Length: 3\r\n\r\nabc',
  )
  text = ''
  for await (const chunk of whole.setEncoding('utf8')) text += String(chunk)
  assert.match(text, /^HTTP\/1\.1 204 /)
})

describe('a repeat with an Idempotency-Key, as docs/guide/synchronous-requests.md says', () => {
  const send = (key: string, prefer: string | undefined, year: number, signal?: AbortSignal) =>
    fetch(`${url}/reports`, {
      method: 'POST',
      body: JSON.stringify({ year }),
      ...(signal && { signal }),
      headers: { 'content-type': 'application/json', 'idempotency-key': key, ...(prefer !== undefined && { prefer }) },
    })
  const statuses = async (key: string, year: number): Promise<number[]> => {
    const all: number[] = []
    for (const prefer of ['respond-async', 'respond-async, wait=1', undefined]) {
      const response = await send(key, prefer, year)
      await response.text()
      all.push(response.status)
    }
    return all
  }

  test('gets the result after a 202 only with respond-async and wait', async () => {
    await (await send('first-202', 'respond-async', 2002)).text()
    assert.deepEqual(await statuses('first-202', 2002), [202, 200, 202])
    await (await send('first-202-running', 'respond-async', 2026)).text()
    assert.deepEqual(await statuses('first-202-running', 2026), [202, 202, 202])
    await (await send('first-202-failed', 'respond-async', 2001)).text()
    assert.deepEqual(await statuses('first-202-failed', 2001), [202, 422, 202])
  })

  test('gets the result after a synchronous request that has ended', async () => {
    await (await send('first-sync', undefined, 2002)).text()
    assert.deepEqual(await statuses('first-sync', 2002), [200, 200, 200])
  })

  test('gets a 409 with respond-async while the synchronous request runs', async () => {
    await assert.rejects(send('first-running', undefined, 2026, AbortSignal.timeout(300)))
    for (const prefer of ['respond-async', 'respond-async, wait=1']) {
      const response = await send('first-running', prefer, 2026)
      assert.equal((await response.json() as { code: string }).code, 'idempotent_request_running')
      assert.equal(response.status, 409)
      assert.notEqual(response.headers.get('retry-after'), null)
    }
  })
})

describe('the signed request of docs/guide/callbacks.md', () => {
  const callbacks = guide('callbacks.md')
  const secrets = [...callbacks.matchAll(/: '(whsec_[^']+)',$/gm)].slice(0, 2).map(([, secret = '']) => secret)
  const [block = ''] = blocks(section(callbacks, 'Verify a signature'), 'http')
  const { headers, body: shown } = parsePart(block)
  const body = shown.trimEnd()

  test('has the signatures that longhaul sends with these secrets', async () => {
    assert.equal(secrets.length, 2)
    const at = Number(headers['webhook-timestamp']) * 1000
    const sent = signedHeaders(secrets, headers['webhook-id'] ?? '', at, body)
    assert.deepEqual({ 'content-type': 'application/json', ...sent }, headers)
    for (const secret of secrets) {
      const { data } = await verifyCallback(body, headers, secret, { toleranceSeconds: 1e10 })
      assert.equal(data.taskId, ID)
    }
  })

  test('is accepted by the lines of Python', (t) => {
    const [code = ''] = blocks(callbacks, 'python')
    const run = spawnSync(
      'python3',
      [
        '-c',
        `${code}
import json, sys
given = json.load(sys.stdin)
headers, body = given['headers'], given['body'].encode()
now = int(headers['webhook-timestamp']) + 10
print([verify(each, headers, body, now) for each in given['secrets']],
      verify('whsec_AAAA', headers, body, now), verify(given['secrets'][0], headers, body + b' ', now),
      verify(given['secrets'][0], headers, body, now + 300))`,
      ],
      { input: JSON.stringify({ headers, body, secrets }), encoding: 'utf8' },
    )
    if (run.error) return t.diagnostic('python3 is not installed, so the lines of the guide were not run')
    assert.equal(run.stdout, '[True, True] False False False\n', run.stderr)
  })
})
