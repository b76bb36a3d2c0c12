import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { SmallProcess } from './small-process.js'
import { CEILING_MS, repeat, upload, whilePinging, type Result } from './upload.js'

/** `npm run test:large` sends a million. */
const ITEMS = process.env['LONGHAUL_LARGE'] === undefined ? 100_000 : 1_000_000
const MIB = 1 << 20

interface Summary { readonly total: number; readonly succeeded: number; readonly failed: number }
interface Answer {
  readonly code?: string
  readonly summary: Summary
  readonly items?: readonly { readonly index: number; readonly status: number; readonly id?: string; readonly error?: { readonly code: string; readonly details?: readonly { readonly pointer: string }[] } }[]
  readonly position?: { readonly item: number; readonly line: number; readonly column: number }
}

const userText = (index: number): string => `{"name":"User ${index}","email":"user${index}@example.com","role":"viewer"}`

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

describe('many records for a process with a heap of 64 MiB', () => {
  let server: SmallProcess
  let atStart = 0
  before(async () => {
    server = await SmallProcess.start('bulk-server.ts')
    atStart = (await server.memory()).maxRss
  })
  after(async () => { await server.stop() })

  const send = async (path: string, pieces: Iterable<Uint8Array>, headers: Record<string, string> = {}): Promise<{ status: number; answer: Answer; written: number }> => {
    const had = (await server.memory()).written ?? 0
    const { result, slowest } = await whilePinging<Result>(server.port, upload(server.port, pieces, { path, 'content-type': 'application/json', ...headers }))
    assert.ok(slowest < CEILING_MS, `another request waited for ${slowest} ms`)
    const { maxRss, written } = await server.memory()
    assert.ok(maxRss < atStart + 200 * MIB, `${Math.round(maxRss / MIB)} MiB, ${Math.round(atStart / MIB)} MiB at the start`)
    return { status: result.status, answer: JSON.parse(result.body) as Answer, written: (written ?? 0) - had }
  }

  test('SPEC 4.3: reads an array much larger than its heap, and reports the items that failed', async () => {
    const { status, answer, written } = await send('/users?only=failed', users(ITEMS, (index) => (index % 1000 === 7 ? '{"name":"Nobody"}' : userText(index))))
    const failed = ITEMS / 1000
    assert.equal(status, 207)
    assert.deepEqual(answer.summary, { total: ITEMS, succeeded: ITEMS - failed, failed })
    assert.deepEqual(answer.items?.map(({ index }) => index), Array.from({ length: failed }, (_, at) => at * 1000 + 7))
    assert.ok(answer.items?.every((item) => item.status === 400 && item.error?.code === 'invalid_input'))
    assert.equal(written, ITEMS - failed)
  })

  test('reports each item if nothing is left out', async () => {
    const { status, answer, written } = await send('/users', users(ITEMS))
    assert.deepEqual([status, answer.summary, written], [201, { total: ITEMS, succeeded: ITEMS, failed: 0 }, ITEMS])
    assert.ok(answer.items?.every((item, at) => item.index === at && item.status === 201 && item.id !== undefined))
    assert.equal(answer.items?.length, ITEMS)
  })

  test('reads an array deep in the body, among other members, and reports the items that failed', async () => {
    function* body(): Generator<Buffer> {
      yield Buffer.from(`{"meta":{"of":"crm","tags":[1,2]},"list":"${'x'.repeat(100_000)}","data":{"total":${ITEMS},"users":`)
      yield* users(ITEMS, (index) => (index % 1000 === 7 ? '{"name":"Nobody"}' : userText(index)))
      yield Buffer.from('},"end":true}')
    }
    const { status, answer, written } = await send('/import?only=failed', body())
    const failed = ITEMS / 1000
    assert.deepEqual([status, answer.summary, written], [207, { total: ITEMS, succeeded: ITEMS - failed, failed }, ITEMS - failed])
    assert.deepEqual(answer.items?.at(-1)?.error?.details?.[0]?.pointer, `/data/users/${ITEMS - 1000 + 7}/email`)
  })

  for (const [name, filling] of [['a text without end', 'a'], ['nesting without end', '[']] as const) {
    test(`${name} before a deep array is refused, and nothing is written`, async () => {
      function* body(): Generator<Uint8Array> {
        yield Buffer.from(filling === 'a' ? '{"meta":"' : '{"meta":')
        yield* repeat(Buffer.alloc(65_536, filling), 200_000_000)
      }
      const { status, answer, written } = await send('/import', body())
      assert.deepEqual([status, answer.code, written], [413, 'body_too_large', 0])
    })
  }

  test('one malformed item ends the batch: all items before it are written and reported, and its position is shown', async () => {
    const { status, answer, written } = await send('/users', users(100_000, (index) => (index === 70_000 ? '{"name":"User", email:1}' : userText(index))))
    assert.deepEqual([status, answer.code], [400, 'malformed_json'])
    assert.deepEqual([answer.position?.item, answer.position?.line, answer.position?.column], [70_000, 70_001, 17])
    assert.deepEqual(answer.summary, { total: 70_000, succeeded: 70_000, failed: 0 })
    assert.equal(written, 70_000)
    assert.deepEqual([answer.items?.length, answer.items?.at(-1)?.index], [70_000, 69_999])
  })

  test('the answer to a body that is cut off reports the items that were written', async () => {
    const { status, answer, written } = await send('/users?only=failed', [...users(50_000)].slice(0, -1))
    assert.deepEqual([status, answer.code], [400, 'malformed_json'])
    assert.ok(written > 40_000 && written === answer.summary.succeeded, `${written}`)
    assert.equal(answer.position?.item, written)
  })

  for (const [name, piece] of [['a text of 200 MB', 'a'], ['nesting without end', '[']] as const) {
    test(`${name} is refused, and the items before it are reported`, async () => {
      function* pieces(): Generator<Uint8Array> {
        yield Buffer.concat([...users(30_000)]).subarray(0, -1)
        yield Buffer.from(piece === 'a' ? ',{"name":"' : ',')
        yield* repeat(Buffer.alloc(65_536, piece), 200_000_000)
      }
      const { status, answer, written } = await send('/users?only=failed', pieces())
      assert.deepEqual([status, answer.code, answer.position?.item, answer.summary.succeeded, written], [413, 'body_too_large', 30_000, 30_000, 30_000])
    })
  }

  test('invalid items are reported by their number alone if the client wants no more', async () => {
    const { status, answer } = await send('/users', [Buffer.from(`[${'1,'.repeat(ITEMS)}1]`)], { prefer: 'return=minimal' })
    assert.deepEqual([status, answer.summary], [422, { total: ITEMS + 1, succeeded: 0, failed: ITEMS + 1 }])
  })
})
