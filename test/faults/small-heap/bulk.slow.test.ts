import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { SmallProcess } from '../kit/small-process.js'
import { gzipSync } from 'node:zlib'
import { repeat, upload, whilePinging, type Result } from './upload.js'

/** About as many as fit into a direct request. */
const ITEMS = 100_000
/** For the background. `npm run test:large` sends a million. */
const LARGE = process.env['LONGHAUL_LARGE'] === undefined ? 250_000 : 1_000_000
const MIB = 1 << 20

interface Summary { readonly total: number; readonly succeeded: number; readonly failed: number }
interface Answer {
  readonly code?: string
  readonly summary: Summary
  readonly items?: readonly {
    readonly index: number
    readonly status: number
    readonly id?: string
    readonly error?: { readonly code: string; readonly details?: readonly { readonly pointer: string }[] }
  }[]
  readonly position?: { readonly item: number; readonly line: number; readonly column: number }
}

const userText = (index: number): string =>
  `{"name":"User ${index}","email":"user${index}@example.com","role":"viewer"}`

/** A JSON array of so many users, a line each, in pieces of about 64 KiB. */
function* users(count: number, textOf: (index: number) => string = userText): Generator<Buffer> {
  let text = '['
  for (let index = 0; index < count; index++) {
    text += `${index === 0 ? '' : ',\n'}${textOf(index)}`
    if (text.length < 65_536) continue
    yield Buffer.from(text)
    text = ''
  }
  yield Buffer.from(`${text}]`)
}

/** Waits until a task has ended. */
async function finished(port: number, path: string): Promise<Result> {
  for (;;) {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: { prefer: 'wait=20' } })
    const body = await response.text()
    if (response.status !== 200 || body.includes('"status":"completed"') || body.includes('"status":"failed"'))
      return { status: response.status, body }
  }
}

describe('a process with a heap of 64 MiB', () => {
  let server: SmallProcess
  let atStart = 0
  before(async () => {
    server = await SmallProcess.start('bulk-server.ts')
    atStart = (await server.memory()).maxRss
  })
  after(async () => { await server.stop() })

  const send = async (
    path: string,
    pieces: Iterable<Uint8Array>,
    headers: Record<string, string> = {},
  ): Promise<{ status: number; answer: Answer; written: number }> => {
    const had = (await server.memory()).written ?? 0
    const result = await whilePinging<Result>(
      server.port,
      upload(server.port, pieces, { path, 'content-type': 'application/json', ...headers }),
    )
    const { maxRss, written } = await server.memory()
    assert.ok(
      maxRss < atStart + 200 * MIB,
      `${Math.round(maxRss / MIB)} MiB, ${Math.round(atStart / MIB)} MiB at the start`,
    )
    return { status: result.status, answer: JSON.parse(result.body) as Answer, written: (written ?? 0) - had }
  }

  test('SPEC 4.3: reads an array much larger than its heap in the background, although the client has not requested it', async () => {
    const { status, answer } = await send(
      '/background',
      users(LARGE, (index) => (index % 1000 === 7 ? '{"name":"Nobody"}' : userText(index))),
    )
    assert.equal(status, 202)
    const { taskId } = answer as unknown as { taskId: string }
    const { body } = await whilePinging(server.port, finished(server.port, `/tasks/${taskId}`))
    const { status: end, result } = JSON.parse(body) as { status: string; result: { summary: Summary } }
    const failed = LARGE / 1000
    assert.deepEqual([end, result.summary], ['completed', { total: LARGE, succeeded: LARGE - failed, failed }])
    const { maxRss } = await server.memory()
    assert.ok(
      maxRss < atStart + 200 * MIB,
      `${Math.round(maxRss / MIB)} MiB, ${Math.round(atStart / MIB)} MiB at the start`,
    )
  })

  test('SPEC 4.3: reads a large array, and reports the items that failed', async () => {
    const { status, answer, written } = await send(
      '/users?only=failed',
      users(ITEMS, (index) => (index % 1000 === 7 ? '{"name":"Nobody"}' : userText(index))),
    )
    const failed = ITEMS / 1000
    assert.equal(status, 207)
    assert.deepEqual(answer.summary, { total: ITEMS, succeeded: ITEMS - failed, failed })
    assert.deepEqual(answer.items?.map(({ index }) => index), Array.from({ length: failed }, (_, at) => at * 1000 + 7))
    assert.ok(answer.items?.every((item) => item.status === 400 && item.error?.code === 'invalid_input'))
    assert.equal(written, ITEMS - failed)
  })

  test('reports every item if the report is complete', async () => {
    const { status, answer, written } = await send('/users', users(ITEMS))
    assert.deepEqual([status, answer.summary, written], [201, { total: ITEMS, succeeded: ITEMS, failed: 0 }, ITEMS])
    assert.ok(answer.items?.every((item, at) => item.index === at && item.status === 201 && item.id !== undefined))
    assert.equal(answer.items?.length, ITEMS)
  })

  test('reads an array deep in the body, beside other properties, and reports the items that failed', async () => {
    function* body(): Generator<Buffer> {
      yield Buffer.from(
        `{"meta":{"of":"crm","tags":[1,2]},"list":"${'x'.repeat(100_000)}","data":{"total":${ITEMS},"users":`,
      )
      yield* users(ITEMS, (index) => (index % 1000 === 7 ? '{"name":"Nobody"}' : userText(index)))
      yield Buffer.from('},"end":true}')
    }
    const { status, answer, written } = await send('/import?only=failed', body())
    const failed = ITEMS / 1000
    assert.deepEqual(
      [status, answer.summary, written],
      [207, { total: ITEMS, succeeded: ITEMS - failed, failed }, ITEMS - failed],
    )
    assert.deepEqual(answer.items?.at(-1)?.error?.details?.[0]?.pointer, `/data/users/${ITEMS - 1000 + 7}/email`)
  })

  for (const [name, filling] of [['a text without end', 'a'], ['nesting without end', '[']] as const) {
    test(`rejects ${name} before a deep array, and writes nothing`, async () => {
      function* body(): Generator<Uint8Array> {
        yield Buffer.from(filling === 'a' ? '{"meta":"' : '{"meta":')
        yield* repeat(Buffer.alloc(65_536, filling), 200_000_000)
      }
      const { status, answer, written } = await send('/import', body())
      assert.deepEqual([status, answer.code, written], [413, 'body_too_large', 0])
    })
  }

  test('writes nothing of a body with one malformed item, and shows its position', async () => {
    const { status, answer, written } = await send(
      '/users',
      users(100_000, (index) => (index === 70_000 ? '{"name":"User", email:1}' : userText(index))),
    )
    assert.deepEqual([status, answer.code, answer.summary, written], [400, 'malformed_json', undefined, 0])
    assert.deepEqual([answer.position?.item, answer.position?.line, answer.position?.column], [70_000, 70_001, 17])
  })

  test('writes nothing if the body has one item too many or is too large', async () => {
    for (const count of [100_001, 200_000]) {
      const { status, answer, written } = await send('/default', users(count))
      assert.deepEqual(
        [status, answer.code, answer.summary, written],
        [413, 'body_too_large', undefined, 0],
        String(count),
      )
    }
  })

  test('writes nothing of a body that is cut off', async () => {
    const { status, answer, written } = await send('/users?only=failed', [...users(50_000)].slice(0, -1))
    assert.deepEqual([status, answer.code, answer.summary, written], [400, 'malformed_json', undefined, 0])
  })

  for (const [name, piece] of [['a text of 200 MB', 'a'], ['nesting without end', '[']] as const) {
    test(`rejects ${name}, and writes nothing`, async () => {
      function* pieces(): Generator<Uint8Array> {
        yield Buffer.concat([...users(30_000)]).subarray(0, -1)
        yield Buffer.from(piece === 'a' ? ',{"name":"' : ',')
        yield* repeat(Buffer.alloc(65_536, piece), 200_000_000)
      }
      const { status, answer, written } = await send('/users?only=failed', pieces())
      assert.deepEqual([status, answer.code, written], [413, 'body_too_large', 0])
    })
  }

  test('serves other clients after clients have stopped in the middle of large bodies', async (t) => {
    const stalled: Socket[] = []
    t.after(() => { for (const socket of stalled) socket.destroy() })
    const answers: Promise<string>[] = []
    const [start] = users(100_000)
    for (let at = 0; at < 10; at++) {
      const socket = connect(server.port, '127.0.0.1')
      stalled.push(socket)
      // The server may reset a connection after its answer.
      socket.on('error', () => undefined)
      answers.push(new Promise((resolve) => { socket.once('data', (data) => { resolve(String(data)) }) }))
      const head = `POST /default HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${8 * MIB}\r\n\r\n`
      socket.write(head)
      await new Promise((resolve) => {
        socket.write(
          Buffer.concat(Array.from({ length: 120 }, () => start as Buffer)).subarray(0, 8 * MIB - 1),
          resolve,
        )
      })
    }
    // The last bytes of a stalled client may arrive after the first ones of this client, which is
    // silent for longest then and is dropped.
    const sendNow = () => send('/default?only=failed', users(50_000))
    const { status, written } = await sendNow().catch(sendNow)
    assert.deepEqual([status, written], [201, 50_000])
    assert.match(await Promise.race(answers), /^HTTP\/1.1 (503 [^]*"overloaded"|429 [^]*"too_many_requests")/)
  })

  test('lists only the numbers of invalid items if the client requests no more', async () => {
    const { status, answer } = await send('/users', [Buffer.from(`[${'1,'.repeat(ITEMS)}1]`)], {
      prefer: 'return=minimal',
    })
    assert.deepEqual([status, answer.summary], [422, { total: ITEMS + 1, succeeded: 0, failed: ITEMS + 1 }])
  })
})

const MAX_DIRECT_BYTES = 8 * MIB

/** An object whose text has so many bytes, and which takes some 25 times as much of the heap. */
function heavy(bytes: number): string {
  return `{"a":[${'{},'.repeat(Math.floor((bytes - 12) / 3))}{}]}`
}

describe('ten bodies at once for a process with a heap of 256 MiB, default options and a slow database', () => {
  const bodies: Readonly<Record<string, () => Buffer>> = {
    'users up to the largest direct body': () => Buffer.concat([...users(100_000)]),
    'a small body that is one heavy item': () => Buffer.from(`[${heavy(250_000)}]`),
    'the largest items that are read': () =>
      Buffer.from(`[${Array.from({ length: 3 }, () => heavy(MIB - 100)).join(',')}]`),
    'empty objects': () => Buffer.from(`[${'{},'.repeat(99_999)}{}]`),
    'heavy items of 60 KB': () => Buffer.from(`[${Array.from({ length: 10 }, () => heavy(60_000)).join(',')}]`),
  }
  for (const [name, make] of Object.entries(bodies)) {
    for (const coded of [false, true]) {
      // The others are refused as they are: their decoded size is more than 250 times as large.
      if (coded && gzipSync(make()).byteLength * 250 < make().byteLength) continue
      test(`${name}${coded ? ', gzipped' : ''}: each body is written or rejected, and the process continues`, async (t) => {
        const server = await SmallProcess.start('bulk-server.ts', { heapMiB: 256 })
        t.after(() => server.stop())
        const plain = make()
        assert.ok(plain.byteLength <= MAX_DIRECT_BYTES)
        const body = coded ? gzipSync(plain) : plain
        const headers = {
          'path': '/slow',
          'content-type': 'application/json',
          'prefer': 'return=minimal',
          ...(coded && { 'content-encoding': 'gzip' }),
        }
        const results = await Promise.all(Array.from({ length: 10 }, () => upload(server.port, [body], headers)))
        const statuses = results.map(({ status }) => status)
        t.diagnostic(statuses.join(' '))
        assert.ok(
          statuses.every((status) => [201, 429, 503].includes(status)) && statuses.includes(201),
          String(statuses),
        )
        assert.ok(results.every((each) => each.status === 201 || /"(overloaded|too_many_requests)"/.test(each.body)))
        assert.ok(server.alive)
      })
    }
  }
})
