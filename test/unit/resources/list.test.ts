import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { httpError } from '../../../src/http/errors.js'
import type { Call, PageRequest } from '../../../src/repositories/repository.js'
import { list } from '../../../src/resources/list.js'
import { ask, faults, type Asked } from './ask.js'

interface Thing { readonly id: number }

const things = (count: number): Thing[] => Array.from({ length: count }, (_, id) => ({ id }))

/** Pages by position. */
function source(count: number, counts = true) {
  const all = things(count)
  const asked: PageRequest[] = []
  const list = (page: PageRequest, _call: Call) => {
    asked.push(page)
    return { items: all.slice(page.start, page.start + page.limit), ...counts && { total: all.length } }
  }
  return { list, asked }
}

const counted = list({ repository: source(1200) })
const uncounted = list({ repository: source(60, false), batchSize: 25 })
const get = (handler: typeof counted, search: string, asked: Asked = {}) =>
  ask(handler, 'GET', `/v1/things${search}`, asked)
const range = (text: string, more = {}) => ({ headers: { range: text, ...more } })
const ids = ({ json }: { json: { items: Thing[] } }) => [json.items[0]?.id, json.items.at(-1)?.id, json.items.length]

describe('a page of a collection', () => {
  test('SPEC 4.2: has the first 100 records by default', async () => {
    const answer = await get(counted, '')
    assert.deepEqual(
      [answer.status, answer.headers['content-type'], answer.headers['accept-ranges']],
      [200, 'application/json', 'items'],
    )
    assert.deepEqual(ids(answer), [0, 99, 100])
    const { items: _, ...rest } = answer.json
    assert.deepEqual(rest, { start: 0, batch_size: 100, total: 1200, next: '/v1/things?start=100&batch_size=100' })
  })
  test('SPEC 4.2: is selected by batch_size and start, is limited to the maximum, and is empty past the end', async () => {
    assert.deepEqual(ids(await get(counted, '?batch_size=5&start=3')), [3, 7, 5])
    const most = await get(counted, '?batch_size=99999999999999999999')
    assert.deepEqual([...ids(most), most.json.batch_size], [0, 999, 1000, 1000])
    for (const start of ['1200', '99999999999999999999999']) {
      const past = await get(counted, `?start=${start}`)
      assert.deepEqual([past.status, past.json.items, past.json.total, past.json.next], [200, [], 1200, undefined])
    }
  })
  test('SPEC 7.400: gets a 400 for a repeated parameter, or a value other than digits', async () => {
    for (const search of [
      'batch_size=0', 'batch_size=', 'batch_size=-1', 'batch_size=1.5', 'batch_size=1e3',
      'batch_size=0x10', 'batch_size=%201', 'start=-1', 'start=a', 'start=', 'start=1&start=1',
      'batch_size=1&batch_size=2', 'cursor=x', 'start=%D9%A1',
    ]) {
      const { status, json } = await get(counted, `?${search}`)
      assert.deepEqual([status, json?.code], [400, 'invalid_query'], search)
    }
    assert.equal((await get(counted, '?batch_size=007&other=x&other=y')).json.batch_size, 7)
  })
  test('has a Link to the other pages, with the other query parameters', async () => {
    const links = async (handler: typeof counted, search: string) =>
      Object.fromEntries(
        [...String((await get(handler, search)).headers['link']).matchAll(/<\/v1\/things\?([^>]*)>; rel="(\w+)"/g)].map(
          ([, query, rel]) => [rel, query],
        ),
      )
    assert.deepEqual(await links(counted, '?q=a%26b&start=250&batch_size=100'), {
      first: 'q=a%26b&start=0&batch_size=100',
      prev: 'q=a%26b&start=150&batch_size=100',
      next: 'q=a%26b&start=350&batch_size=100',
      last: 'q=a%26b&start=1100&batch_size=100',
    })
    assert.deepEqual(Object.keys(await links(counted, '')), ['first', 'next', 'last'])
    assert.deepEqual(Object.keys(await links(counted, '?start=1100')), ['first', 'prev', 'last'])
    assert.equal((await links(counted, '?start=5000'))['prev'], 'start=1100&batch_size=100')
    assert.equal((await links(counted, '?start=10'))['prev'], 'start=0&batch_size=100')
    assert.deepEqual(Object.keys(await links(uncounted, '')), ['first', 'next'])
    assert.deepEqual(Object.keys(await links(uncounted, '?start=50')), ['first', 'prev'])
    assert.deepEqual(Object.keys(await links(list({ repository: source(0) }), '')), ['first', 'last'])
  })
  test('has a next page, so that a reader gets each record once, for any page sizes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(60), fc.integer({ min: 1, max: 20 }), fc.boolean(), async (count, size, counts) => {
        const handler = list({ repository: source(count, counts) })
        const found: number[] = []
        let next: string | undefined = `/things?batch_size=${size}`
        for (let pages = 0; next !== undefined; pages++) {
          assert.ok(pages <= count / size + 1, 'it never ends')
          const { json } = (await ask(handler, 'GET', next)) as { json: { items: Thing[]; next?: string } }
          found.push(...json.items.map(({ id }) => id))
          next = json.next
        }
        assert.deepEqual(
          found,
          things(count).map(({ id }) => id),
        )
      }),
      { numRuns: 60 },
    )
  })
  test('may be NDJSON if the client prefers it, and other types get a 406', async () => {
    const lines = await get(counted, '?batch_size=2', {
      headers: { accept: 'application/x-ndjson, application/json;q=0.5' },
    })
    assert.deepEqual(
      [lines.text, lines.headers['content-type'], lines.headers['vary']],
      ['{"id":0}\n{"id":1}\n', 'application/x-ndjson', 'Accept'],
    )
    assert.match(String(lines.headers['link']), /rel="next"/)
    assert.deepEqual([(await get(counted, '', { headers: { accept: 'text/csv' } })).status], [406])
  })
  test('has its own ETag, with 304 for If-None-Match and 412 for If-Match', async () => {
    const { headers: { etag } } = await get(counted, '')
    assert.match(String(etag), /^"[^"]+"$/)
    const same = await get(counted, '', { headers: { 'if-none-match': String(etag) } })
    assert.deepEqual(
      [same.status, same.text, same.headers['etag'], same.headers['content-type']],
      [304, '', etag, undefined],
    )
    assert.equal((await get(counted, '', { headers: { 'if-match': '"other"' } })).status, 412)
    assert.notEqual((await get(counted, '?start=1')).headers['etag'], etag)
  })
  test('has the same headers for HEAD, and other methods are declined', async () => {
    assert.deepEqual((await ask(counted, 'HEAD', '/things')).headers['content-type'], 'application/json')
    assert.equal((await ask(counted, 'POST', '/things')).status, 0)
  })
})

describe('the Link of a page stays within the limits of client parsers', () => {
  const linked = async (length: number) => {
    const answer = await get(counted, `?start=200&filter=${'x'.repeat(length)}`)
    const { link } = answer.headers
    assert.match(String(answer.json.next), /start=300/)
    assert.ok(link === undefined || (typeof link === 'string' && link.length <= 4096))
    return link === undefined ? [] : String(link).split(', ').map((each) => /rel="(\w+)"/.exec(each)?.[1])
  }
  test('with all links for a short query, only next for a longer query, and none for a very long query', async () => {
    assert.deepEqual(await linked(10), ['first', 'prev', 'next', 'last'])
    assert.deepEqual(await linked(900), ['first', 'prev', 'next', 'last'])
    assert.deepEqual(await linked(1100), ['next'])
    assert.deepEqual(await linked(3900), ['next'])
    assert.deepEqual(await linked(4096), [])
    assert.deepEqual(await linked(8000), [])
  })
  test('without any link if the last page has no next', async () => {
    const answer = await get(counted, `?start=1190&filter=${'x'.repeat(2000)}`)
    assert.deepEqual([answer.status, answer.headers['link'], answer.json.next], [200, undefined, undefined])
  })
  test('with percent-encoded text and cursors counted as they are sent', async () => {
    assert.equal((await get(counted, `?start=200&filter=${'ü'.repeat(700)}`)).headers['link'], undefined)
    const byCursor = list({
      repository: { list: () => ({ items: [{ id: 1 }], next: 'c'.repeat(1024) }) },
      paging: 'cursor',
    })
    const answer = await get(byCursor, `?filter=${'x'.repeat(3100)}`)
    assert.deepEqual([answer.status, answer.headers['link']], [200, undefined])
  })
})

describe('a Range over items', () => {
  test('SPEC 4.2: gets a 206 with the requested part for items=0-24', async () => {
    const answer = await get(counted, '', range('items=0-24'))
    assert.deepEqual(
      [answer.status, answer.headers['content-range'], ...ids(answer)],
      [206, 'items 0-24/1200', 0, 24, 25],
    )
    for (const [text, expected] of [
      ['items=1190-', 'items 1190-1199/1200'],
      ['items=1190-5000', 'items 1190-1199/1200'],
      ['items=-5', 'items 1195-1199/1200'],
      ['items=-5000', 'items 0-999/1200'],
      ['items=0-', 'items 0-999/1200'],
      ['items=100-1199', 'items 100-1099/1200'],
      ['Items = 7-7'.replaceAll(' ', ''), 'items 7-7/1200'],
    ] as const)
      assert.deepEqual((await get(counted, '', range(text))).headers['content-range'], expected, text)
  })
  test('gets a 416 past the end', async () => {
    for (const text of ['items=1200-', 'items=5000-6000', 'items=9007199254740990-', 'items=-0']) {
      const { status, headers, json } = await get(counted, '', range(text))
      assert.deepEqual(
        [status, headers['content-range'], json?.code],
        [416, 'items */1200', 'range_not_satisfiable'],
        text,
      )
    }
    assert.equal(
      (await get(list({ repository: source(0) }), '', range('items=0-24'))).headers['content-range'],
      'items */0',
    )
  })
  test('can be used with a repository without a count', async () => {
    assert.equal((await get(uncounted, '', range('items=50-70'))).headers['content-range'], 'items 50-59/*')
    const past = await get(uncounted, '', range('items=60-'))
    assert.deepEqual([past.status, past.headers['content-range']], [416, undefined])
    assert.equal((await get(uncounted, '', range('items=-5'))).status, 200)
  })
  test('gets a part with the ETag of the 200 with the same records (RFC 9110 section 15.3.7)', async () => {
    const tag = async (search: string, asked?: Asked) => String((await get(counted, search, asked)).headers['etag'])
    const first = await tag('')
    for (const text of ['items=0-24', 'items=7-7', 'items=0-99', 'items=99-99'])
      assert.equal(await tag('', range(text)), first, text)
    // The first page says nothing about these.
    assert.equal(await tag('', range('items=400-499')), await tag('?start=400&batch_size=100'))
    assert.equal(await tag('', range('items=90-109')), await tag('?start=90&batch_size=20'))
    const lines = { accept: 'application/x-ndjson' }
    assert.equal(await tag('', range('items=3-4', lines)), await tag('', { headers: lines }))
    assert.notEqual(await tag('', range('items=3-4', lines)), first)
  })
  test('is checked by conditions and If-Range with this ETag', async () => {
    const whole = async (headers: Asked['headers']) =>
      assert.deepEqual(ids(await get(counted, '', { headers: headers ?? {} })), [0, 99, 100])
    for (const text of ['items=3-4', 'items=400-401']) {
      const { headers: { etag } } = await get(counted, '', range(text))
      const asked = async (more: object) => (await get(counted, '', range(text, more))).status
      assert.equal(await asked({ 'if-range': etag }), 206)
      assert.equal(await asked({ 'if-match': etag }), 206)
      assert.equal(await asked({ 'if-none-match': '"x"' }), 206)
      const same = await get(counted, '', range(text, { 'if-none-match': etag }))
      assert.deepEqual([same.status, same.headers['etag'], same.headers['content-range']], [304, etag, undefined])
      assert.equal(await asked({ 'if-match': '"x"' }), 412)
      assert.equal(await asked({ 'if-none-match': etag, 'if-range': etag }), 304)
      await whole({ 'range': text, 'if-range': '"x"' })
      await whole({ 'range': text, 'if-range': `W/${String(etag)}` })
      await whole({ 'range': text, 'if-range': 'Sun, 06 Nov 1994 08:49:37 GMT' })
    }
    // Nothing is there to be held against the condition but the whole page.
    await whole({ 'range': 'items=5000-', 'if-range': '"x"' })
    await whole({ 'range': 'items=5000-', 'if-none-match': '"x"' })
  })
  test('gets another ETag if a record changes beyond the first page', async () => {
    const records = things(300)
    const repository = {
      list: ({ start, limit }: PageRequest) => ({ items: records.slice(start, start + limit), total: 300 }),
    }
    const handler = list({ repository })
    const before = await get(handler, '', range('items=250-259'))
    records[255] = { id: 1000 }
    const after = await get(handler, '', range('items=250-259', { 'if-none-match': before.headers['etag'] }))
    assert.deepEqual([after.status, after.json.items[5]?.id], [206, 1000])
    assert.notEqual(after.headers['etag'], before.headers['etag'])
  })
  test('is ignored beside parameters, in another unit, with several ranges, malformed, or for HEAD', async () => {
    for (const [search, headers] of [
      ['?start=0', { range: 'items=0-1' }],
      ['?batch_size=100', { range: 'items=0-1' }],
      ['', { range: 'bytes=0-1' }],
      ['', { range: 'items=0-1,5-6' }],
      ['', { range: 'items=5-1' }],
    ] as const)
      assert.deepEqual(ids(await get(counted, search, { headers })), [0, 99, 100], JSON.stringify([search, headers]))
    assert.equal((await ask(counted, 'HEAD', '/things', range('items=0-1'))).status, 200)
  })
  test('gets the part of the whole list that the range names, for any range', async () => {
    const handler = list({ repository: source(30), batchSize: 5, maxBatchSize: 10 })
    await fc.assert(fc.asyncProperty(fc.nat(40), fc.nat(40), async (a, b) => {
      const [first, last] = [Math.min(a, b), Math.max(a, b)]
      const { status, json } = await get(handler, '', range(`items=${first}-${last}`))
      if (first >= 30) assert.equal(status, 416)
      else assert.deepEqual(json.items, things(30).slice(first, Math.min(last + 1, first + 10)))
    }), { numRuns: 60 })
  })
})

describe('a page with a cursor', () => {
  const secret = (at: number): string => Buffer.from(`after ${at}/?&`).toString('base64url')
  const repository = {
    list: ({ cursor, limit }: PageRequest) => {
      const start =
        cursor === undefined ? 0 : Number(/^after (\d+)/.exec(Buffer.from(cursor, 'base64url').toString())?.[1] ?? NaN)
      if (Number.isNaN(start)) throw httpError('invalid_query', { message: 'No such cursor.' })
      const items = things(25).slice(start, start + limit)
      return { items, ...start + limit < 25 && { next: secret(start + limit) } }
    },
  }
  const handler = list({ repository, batchSize: 10, paging: 'cursor' })
  test('has the cursor in next, and shows no position', async () => {
    const first = await get(handler, '?q=1')
    assert.deepEqual(
      [first.json.start, first.json.next, first.headers['accept-ranges']],
      [0, `/v1/things?q=1&batch_size=10&cursor=${secret(10)}`, undefined],
    )
    const second = await ask(handler, 'GET', first.json.next)
    assert.deepEqual([ids(second), second.json.start, second.json.total], [[10, 19, 10], undefined, undefined])
    const third = await ask(handler, 'GET', second.json.next)
    assert.deepEqual(
      [ids(third), third.json.next, third.headers['link']],
      [[20, 24, 5], undefined, '</v1/things?q=1&batch_size=10>; rel="first"'],
    )
  })
  test('rejects positions, ranges and malformed cursors', async () => {
    assert.equal((await get(handler, '', range('items=3-4'))).status, 200)
    for (const search of ['?start=5', '?cursor=', '?cursor=x&cursor=x', `?cursor=${'x'.repeat(1025)}`, '?cursor=bm8']) {
      assert.deepEqual([(await get(handler, search)).json?.code], ['invalid_query'], search)
    }
  })
  test('fails as a fault of the repository if its cursor is too long', async () => {
    const before = faults.length
    const endless = list({ repository: { list: () => ({ items: [], next: 'x'.repeat(1025) }) }, paging: 'cursor' })
    assert.deepEqual([(await get(endless, '')).status, faults.length], [500, before + 1])
  })
})

test('a repository that returns more records than requested, or no page, gets a masked 500', async () => {
  for (const page of [{ items: things(101) }, undefined, { items: 'x' }]) {
    assert.equal((await get(list({ repository: { list: () => page as never } }), '')).status, 500)
  }
})
test('the repository of a list receives the call', async () => {
  const context = { tenant: 't' }
  const calls: Call[] = []
  await get(list({ repository: { list: (_, call) => { calls.push(call); return { items: [] } } } }), '', { context })
  assert.equal(calls[0]?.context, context)
  assert.ok(calls[0]?.signal instanceof AbortSignal)
})
test('invalid options of a list are rejected at once', () => {
  const repository = source(1)
  for (const options of [
    { repository: {} },
    { repository, batchSize: 0 },
    { repository, batchSize: 2000 },
    { repository, maxBatchSize: 1.5 },
    { repository, paging: 'page' },
  ]) {
    assert.throws(() => list(options as never), TypeError, JSON.stringify(options))
  }
})
test('the handler of a list has an OpenAPI description', () => {
  assert.deepEqual(counted.operations?.map(({ method }) => method), ['GET', 'HEAD'])
  const { parameters, responses } = counted.operations?.[0]?.openapi as {
    parameters: { name: string }[]
    responses: object
  }
  assert.deepEqual(parameters.map(({ name }) => name), ['batch_size', 'start', 'If-None-Match', 'Range'])
  assert.deepEqual(Object.keys(responses), ['200', '206', '304', '400', '406', '412', '416'])
})
