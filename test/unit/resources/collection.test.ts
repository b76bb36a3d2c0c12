import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { httpError } from '../../../src/http/errors.js'
import type { Call, Repository } from '../../../src/repositories/repository.js'
import type { CollectionOptions } from '../../../src/resources/items.js'
import { collection } from '../../../src/resources/collection.js'
import { mergePatch } from '../../../src/resources/items.js'
import { jsonSchema } from '../../../src/schema/json-schema.js'
import { ask, faults } from './ask.js'

interface Note { readonly id: string, readonly title: string, readonly text?: string, readonly meta?: object }
type Draft = Omit<Note, 'id'>

const properties = { title: { type: 'string' }, text: { type: 'string' }, meta: { type: 'object' } }
const schema = jsonSchema<Draft>({ type: 'object', required: ['title'], properties })
const changeSchema = jsonSchema<Partial<Draft>>({ type: 'object', properties })

/** Notes in a map, and what was done to them. */
class Notes implements Repository<Note, Draft, Partial<Draft>> {
  readonly all = new Map<string, Note>([['a', { id: 'a', title: 'A' }]])
  readonly log: string[] = []
  readonly calls: Call[] = []
  /** Done once between a look and what follows. */
  meanwhile: (() => void) | undefined

  get(id: string, call: Call): Note | undefined {
    this.log.push('get')
    this.calls.push(call)
    const found = this.all.get(id)
    this.meanwhile?.()
    this.meanwhile = undefined
    return found
  }
  list() { return { items: [...this.all.values()], total: this.all.size } }
  create(draft: Draft): Note {
    if ([...this.all.values()].some(({ title }) => title === draft.title))
      throw httpError('conflict', { details: [{ pointer: '/title', message: 'is taken' }] })
    return this.put('new/1', draft)
  }
  replace(id: string, draft: Draft) {
    this.log.push('replace')
    const created = !this.all.has(id)
    return { item: this.put(id, draft), created }
  }
  async update(id: string, change: Partial<Draft>): Promise<Note | undefined> {
    this.log.push(`update ${JSON.stringify(change)}`)
    const old = this.all.get(id)
    return old && this.put(id, { ...old, ...change })
  }
  async delete(id: string): Promise<boolean> {
    this.log.push('delete')
    return this.all.delete(id)
  }
  put(id: string, { title, text, meta }: Draft): Note {
    const note = { id, title, ...text && { text }, ...meta && { meta } }
    this.all.set(id, note)
    return note
  }
}

/** The same with transactions, which take everything back. */
class SafeNotes extends Notes {
  async transaction<Result>(work: (inside: this) => Promise<Result>): Promise<Result> {
    const before = new Map(this.all)
    this.log.push('begin')
    try {
      return await work(this)
    } catch (error) {
      this.all.clear()
      for (const [id, note] of before) this.all.set(id, note)
      this.log.push('rollback')
      throw error
    }
  }
}

function setUp(more: Partial<CollectionOptions<Note, Draft, Partial<Draft>>> = {}, notes = new Notes()) {
  const handler = collection<Note, Draft, Partial<Draft>>({
    repository: notes,
    schema,
    changeSchema,
    path: '/notes',
    ...more,
  })
  const go = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    ask(handler, method, path, { headers, mountPath: '/v1', ...body !== undefined && { body } })
  const tag = async (path = '/v1/notes/a') => String((await go('GET', path)).headers['etag'])
  return { notes, go, tag, handler }
}

describe('one record of a collection', () => {
  test('SPEC 4.1.GET: is a 200 with an ETag if it exists, and a 404 if not', async () => {
    const { go, notes } = setUp()
    const { status, headers, json } = await go('GET', '/v1/notes/a')
    assert.deepEqual(
      [status, json, headers['cache-control'], headers['vary']],
      [200, { id: 'a', title: 'A' }, 'private, no-cache', 'Accept'],
    )
    assert.equal((await go('GET', '/v1/notes/a', undefined, { 'if-none-match': String(headers['etag']) })).status, 304)
    assert.equal((await go('GET', '/v1/notes/a', undefined, { 'if-match': '"no"' })).status, 412)
    assert.deepEqual(
      [
        (await go('GET', '/v1/notes/b')).json.code,
        (await go('GET', '/v1/notes/a', undefined, { accept: 'text/html' })).status,
      ],
      ['not_found', 406],
    )
    assert.ok(notes.calls[0]?.signal instanceof AbortSignal)
  })
  test('SPEC 4.1.POST: is created with a 201, its Location below the mount path, its ETag and its value', async () => {
    const { go } = setUp()
    const made = await go('POST', '/v1/notes/', { title: 'N' })
    assert.deepEqual(
      [made.status, made.headers['location'], made.headers['content-location'], made.json],
      [201, '/v1/notes/new%2F1', '/v1/notes/new%2F1', { id: 'new/1', title: 'N' }],
    )
    assert.equal((await go('GET', '/v1/notes/new%2F1')).headers['etag'], made.headers['etag'])
    const bad = await go('POST', '/v1/notes', { text: 'no title' })
    assert.deepEqual(
      [bad.status, bad.json.code, bad.json.details],
      [400, 'invalid_input', [{ pointer: '/title', message: 'is required' }]],
    )
    assert.deepEqual(
      [
        (await go('POST', '/v1/notes', '{')).json.code,
        (await go('POST', '/v1/notes', 'x', { 'content-type': 'text/plain' })).status,
      ],
      ['malformed_json', 415],
    )
    assert.equal((await go('POST', '/v1/notes', '{"title":"x","__proto__":1}')).json.code, 'unsafe_key')
  })
  test('SPEC 7.409: is rejected with a 409 if it is a duplicate', async () => {
    const { status, json } = await setUp().go('POST', '/v1/notes', { title: 'A' })
    assert.deepEqual([status, json.code, json.details[0].pointer], [409, 'conflict', '/title'])
  })
  test('SPEC 4.1.PUT: is replaced with 200 or 204, or created with 201', async () => {
    const { go, notes } = setUp()
    const replaced = await go('PUT', '/v1/notes/a', { title: 'B', text: 't' })
    assert.deepEqual(
      [replaced.status, replaced.json, replaced.headers['location']],
      [200, { id: 'a', title: 'B', text: 't' }, undefined],
    )
    assert.deepEqual((await go('PUT', '/v1/notes/a', { id: 'a', title: 'C' })).json, { id: 'a', title: 'C' })
    const made = await go('PUT', '/v1/notes/z', { title: 'Z' })
    assert.deepEqual(
      [made.status, made.headers['location'], notes.all.get('z')],
      [201, '/v1/notes/z', { id: 'z', title: 'Z' }],
    )
    const quiet = await go('PUT', '/v1/notes/z', { title: 'Y' }, { prefer: 'return=minimal' })
    assert.deepEqual(
      [quiet.status, quiet.text, quiet.headers['preference-applied'], quiet.headers['etag']],
      [204, '', 'return=minimal', undefined],
    )
    const quietNew = await go('PUT', '/v1/notes/y', { title: 'X' }, { prefer: 'return=minimal' })
    assert.deepEqual([quietNew.status, quietNew.text, quietNew.headers['location']], [201, '', '/v1/notes/y'])
    for (const id of ['b', 5, null])
      assert.deepEqual((await go('PUT', '/v1/notes/a', { title: 'B', id })).json.details, [
        { pointer: '/id', message: 'must be the id in the path, or left out' },
      ])
    assert.equal((await go('PUT', '/v1/notes/a', { text: 'no title' })).status, 400)
    assert.deepEqual(notes.log.filter((line) => line === 'get'), [], 'nobody asked for a look')
  })
  test('SPEC 4.1.PATCH: is changed in the named properties with 200 or 204, or gets a 400', async () => {
    const { go, notes } = setUp()
    for (const type of [
      'application/json', 'application/merge-patch+json',
      'application/merge-patch+json; charset=utf-8',
    ]) {
      const { status, json } = await go('PATCH', '/v1/notes/a', { text: type }, { 'content-type': type })
      assert.deepEqual([status, json], [200, { id: 'a', title: 'A', text: type }])
    }
    assert.equal((await go('PATCH', '/v1/notes/a', { title: 'T' }, { prefer: 'return=minimal' })).status, 204)
    assert.equal(notes.log.at(-1), 'update {"title":"T"}')
    for (const body of [{ title: 5 }, [], 'null', '"x"', { id: 'b' }, { title: null }])
      assert.equal((await go('PATCH', '/v1/notes/a', body)).json.code, 'invalid_input', JSON.stringify(body))
    const wrong = await go('PATCH', '/v1/notes/a', {}, { 'content-type': 'application/json-patch+json' })
    assert.deepEqual(
      [wrong.status, wrong.headers['accept-patch']],
      [415, 'application/merge-patch+json, application/json'],
    )
    assert.equal((await go('PATCH', '/v1/notes/b', { title: 'x' })).status, 404)
    assert.equal((await go('PATCH', '/v1/notes/a', {})).status, 200)
  })
  test('SPEC 4.1.DELETE: is deleted with 204, and a later request gets a 404', async () => {
    const { go } = setUp()
    const gone = await go('DELETE', '/v1/notes/a')
    assert.deepEqual([gone.status, gone.text], [204, ''])
    assert.equal((await go('DELETE', '/v1/notes/a')).status, 404)
  })
  test('lists its methods in OPTIONS and in a 405', async () => {
    const { go } = setUp()
    assert.deepEqual((await go('OPTIONS', '/v1/notes/a')).headers, {
      'allow': 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS',
      'accept-patch': 'application/merge-patch+json, application/json',
    })
    assert.deepEqual((await go('OPTIONS', '/v1/notes')).headers['allow'], 'GET, HEAD, POST, OPTIONS')
    assert.equal((await go('DELETE', '/v1/notes')).status, 405)
    assert.equal((await go('GET', '/v1/other')).status, 0)
    assert.equal((await go('GET', '/v1/notes')).json.total, 1)
  })
})

describe('a patch without its own schema', () => {
  test('is validated with its result', async () => {
    const notes = new Notes()
    const handler = collection<Note, Draft, Partial<Draft>>({ repository: notes, schema })
    const go = (body: unknown) => ask(handler, 'PATCH', '/a', { body })
    assert.deepEqual((await go({ text: 't', meta: { a: 1, b: { c: 2 } } })).json, {
      id: 'a',
      title: 'A',
      text: 't',
      meta: { a: 1, b: { c: 2 } },
    })
    assert.deepEqual((await go({ text: null, meta: { a: null, b: { d: 3 } } })).json, {
      id: 'a',
      title: 'A',
      meta: { b: { c: 2, d: 3 } },
    })
    assert.equal(notes.log.at(-1), 'update {"text":null,"meta":{"b":{"c":2,"d":3}}}')
    assert.deepEqual((await go({ title: null })).json.details, [{ pointer: '/title', message: 'is required' }])
    assert.equal((await ask(handler, 'PATCH', '/b', { body: { text: 't' } })).status, 404)
  })
  test('passes the examples of RFC 7396, appendix A', () => {
    const examples: [unknown, unknown, unknown][] = [
      [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
      [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
      [{ a: 'b' }, { a: null }, {}],
      [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
      [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
      [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
      [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
      [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
      [
        ['a', 'b'],
        ['c', 'd'],
        ['c', 'd'],
      ],
      [{ a: 'b' }, ['c'], ['c']],
      [{ a: 'foo' }, null, null],
      [{ a: 'foo' }, 'bar', 'bar'],
      [{ e: null }, { a: 1 }, { e: null, a: 1 }],
      [[1, 2], { a: 'b', c: null }, { a: 'b' }],
      [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
    ]
    for (const [target, patch, result] of examples) assert.deepEqual(mergePatch(target, patch), result)
  })
  test('changes neither its own value nor the stored one', () => {
    const value = fc.dictionary(
      fc.string().filter((key) => key !== '__proto__'),
      fc.jsonValue().filter((one) => !JSON.stringify(one).includes('__proto__')),
      { noNullPrototype: true },
    )
    fc.assert(fc.property(value, value, (target, patch) => {
      const before = structuredClone([target, patch])
      const merged = mergePatch(target, patch) as Record<string, unknown>
      assert.deepEqual([target, patch], before)
      for (const [key, one] of Object.entries(patch)) if (one === null) assert.ok(!Object.hasOwn(merged, key))
      assert.deepEqual(mergePatch(merged, patch), merged, 'twice is once')
    }))
  })
})

describe('a conditional request to a collection', () => {
  for (const [name, make] of [['without', () => new Notes()], ['with', () => new SafeNotes()]] as const) {
    test(`is checked by If-Match and If-None-Match, ${name} transactions`, async () => {
      const { go, tag, notes } = setUp({}, make())
      for (const [method, body] of [
        ['PUT', { title: 'B' }],
        ['PATCH', { title: 'B' }],
        ['DELETE', undefined],
      ] as const) {
        const wrong = await go(method, '/v1/notes/a', body, { 'if-match': '"other"' })
        assert.deepEqual(
          [wrong.status, wrong.headers['etag'], notes.all.get('a')?.title],
          [412, await tag(), 'A'],
          method,
        )
        assert.equal((await go(method, '/v1/notes/a', body, { 'if-none-match': '*' })).status, 412)
        assert.equal((await go(method, '/v1/notes/a', body, { 'if-match': `W/${await tag()}` })).status, 412, 'weak')
      }
      assert.equal((await go('PATCH', '/v1/notes/a', { title: 'B' }, { 'if-match': await tag() })).status, 200)
      assert.equal((await go('PUT', '/v1/notes/a', { title: 'C' }, { 'if-match': `"x", ${await tag()}` })).status, 200)
      assert.equal((await go('PUT', '/v1/notes/n', { title: 'N' }, { 'if-match': '*' })).status, 412)
      assert.equal((await go('PUT', '/v1/notes/n', { title: 'N' }, { 'if-none-match': '*' })).status, 201)
      assert.equal((await go('DELETE', '/v1/notes/x', undefined, { 'if-match': '*' })).status, 404, 'nothing there')
      assert.equal((await go('DELETE', '/v1/notes/a', undefined, { 'if-match': '*' })).status, 204)
      assert.equal(notes.log.includes('begin'), name === 'with')
    })
  }
  test('gets a 412 if another client changes the record between read and write, and a transaction keeps the change of that client', async () => {
    const { go, notes, tag } = setUp({}, new SafeNotes())
    notes.meanwhile = () => {
      notes.all.set('n', { id: 'n', title: 'theirs' })
    }
    assert.equal((await go('PUT', '/v1/notes/n', { title: 'mine' }, { 'if-none-match': '*' })).status, 412)
    assert.equal(notes.log.at(-1), 'rollback')
    const etag = await tag()
    notes.meanwhile = () => {
      notes.all.delete('a')
    }
    assert.equal((await go('PUT', '/v1/notes/a', { title: 'mine' }, { 'if-match': etag })).status, 412)
  })
  test('gets a 428 if preconditions are required and missing', async () => {
    const { go, tag, notes } = setUp({ requirePreconditions: true })
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      const { status, json } = await go(method, '/v1/notes/a', { title: 'x' })
      assert.deepEqual([status, json.code], [428, 'precondition_required'])
    }
    assert.equal(notes.all.get('a')?.title, 'A')
    assert.equal((await go('PATCH', '/v1/notes/a', { title: 'x' }, { 'if-match': await tag() })).status, 200)
    assert.equal((await go('POST', '/v1/notes', { title: 'y' })).status, 201)
  })
  test('may use an ETag that the application computes', async () => {
    const { tag, go } = setUp({ etag: ({ title }) => `"v-${title}"` })
    assert.equal(await tag(), '"v-A"')
    assert.equal((await go('PATCH', '/v1/notes/a', { title: 'B' }, { 'if-match': '"v-A"' })).headers['etag'], '"v-B"')
  })
})

describe('the methods of a repository', () => {
  test('decide which HTTP methods are allowed', async () => {
    const { all } = new Notes()
    const reading = collection({ repository: { get: (id: string) => all.get(id) }, schema, path: '/notes' })
    assert.equal(
      (await ask(reading, 'PUT', '/notes/a', { body: { title: 'x' } })).headers['allow'],
      'GET, HEAD, OPTIONS',
    )
    assert.equal((await ask(reading, 'GET', '/notes')).status, 0)
    assert.equal((await ask(reading.list, 'GET', '/notes')).status, 0)
    assert.equal((await ask(reading.item, 'GET', '/notes/a', { params: { id: 'a' } })).status, 200)
  })
  test('can have ids of another type', async () => {
    const handler = collection<{ nr: number }, object, object, number>({
      repository: { get: (id) => ({ nr: id }), create: () => ({ nr: 7 }), delete: () => false },
      schema: jsonSchema<object>({ type: 'object' }),
      id: { parse: (text) => (/^\d+$/.test(text) ? Number(text) : undefined), of: ({ nr }) => nr },
      param: 'nr',
    })
    assert.deepEqual((await ask(handler, 'GET', '/12')).json, { nr: 12 })
    assert.equal((await ask(handler, 'GET', '/x')).status, 404)
    assert.equal((await ask(handler, 'POST', '/', { body: {} })).headers['location'], '/7')
  })
  test('throw errors that are masked, and onError receives them', async () => {
    const before = faults.length
    const wrong = collection({
      repository: {
        create: () => ({ id: undefined as never }),
        list: () => {
          throw new Error('secret')
        },
      },
      schema,
    })
    for (const [method, body] of [['POST', { title: 'x' }], ['GET', undefined]] as const) {
      const { status, text } = await ask(wrong, method, '/', { ...body && { body } })
      assert.deepEqual([status, text.includes('secret')], [500, false])
    }
    assert.equal(faults.length, before + 2)
    const { item } = setUp().handler
    assert.equal((await ask(item, 'GET', '/notes/a')).status, 500, 'mounted without a parameter')
  })
  test('are checked with other options at construction', () => {
    const repository = new Notes()
    for (const options of [
      { repository: {}, schema },
      { repository, schema: {} },
      { repository, schema, changeSchema: 5 },
      { repository, schema, maxBodyBytes: 0 },
      { repository: { delete: () => true }, schema },
      { repository, schema, batchSize: 0 },
      { repository, schema, path: 'notes' },
    ])
      assert.throws(() => collection(options as never), TypeError)
  })
  test('do not receive bodies that are too large', async () => {
    assert.equal((await setUp({ maxBodyBytes: 20 }).go('POST', '/v1/notes', { title: 'x'.repeat(30) })).status, 413)
  })
  test('describe the operations at the paths of the collection', () => {
    assert.deepEqual(
      setUp().handler.operations?.map(({ method, path }) => `${method} ${path ?? ''}`),
      [
        'GET /notes', 'HEAD /notes', 'POST /notes', 'GET /notes/{id}', 'HEAD /notes/{id}',
        'PUT /notes/{id}', 'PATCH /notes/{id}', 'DELETE /notes/{id}',
      ],
    )
  })
})
