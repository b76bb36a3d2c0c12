import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { httpError, HttpError } from '../../../../src/http/errors.js'
import { taskText } from '../../../../src/tasks/record/view.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { jobFormat, taskFormat, etagOf } from '../../../../src/tasks/http/formats.js'
import { isPermanent, permanent, toFailure } from '../../../../src/tasks/run/failure.js'
import { fingerprintOf, parseIdempotencyKey } from '../../../../src/idempotency/key.js'
import { newId } from '../../../../src/runtime/random-id.js'
import { isTaskId } from '../../../../src/tasks/record/details.js'
import type { StoredTask } from '../../../../src/engine/task.js'
import { toResultText } from '../../../../src/tasks/definition/json-values.js'
import { StatusPath } from '../../../../src/tasks/http/status-path.js'

const STATES: StoredTask['status'][] = ['queued', 'processing', 'completed', 'failed', 'cancelled']
const stored: StoredTask = {
  id: 'a1',
  birth: 'b',
  key: undefined,
  name: 'export',
  owner: undefined,
  caller: undefined,
  status: 'queued',
  run: 0,
  attempt: 0,
  crashes: 0,
  version: 1,
  createdAt: 1_700_000_000_000,
  startAt: undefined,
  pool: 'default',
  priority: 0,
  startedAt: undefined,
  runStartedAt: undefined,
  finishedAt: undefined,
  expiresAt: 1_700_000_100_000,
  callbackRun: 0,
  callbackAt: undefined,
  details: {},
  result: undefined,
}

describe('the text of a task', () => {
  test('SPEC 2.5: shows processing for queued, and result only if the task has one', () => {
    assert.deepEqual(JSON.parse(taskText(stored)), {
      taskId: 'a1',
      status: 'processing',
      message: 'The task was accepted and waits to be processed.',
      task: 'export',
      createdAt: '2023-11-14T22:13:20.000Z',
    })
    const done = {
      ...stored,
      status: 'completed' as const,
      result: '{"message":"ok"}',
      startedAt: 1_700_000_001_000,
      finishedAt: 1_700_000_002_000,
      details: { progress: { done: 1, total: 2, message: 'm"' } },
    }
    assert.deepEqual(JSON.parse(taskText(done)), {
      taskId: 'a1',
      status: 'completed',
      message: 'The task is completed.',
      task: 'export',
      progress: { done: 1, total: 2, message: 'm"' },
      result: { message: 'ok' },
      createdAt: '2023-11-14T22:13:20.000Z',
      startedAt: '2023-11-14T22:13:21.000Z',
      finishedAt: '2023-11-14T22:13:22.000Z',
    })
  })

  test('SPEC 2.6: has id, state, jobId and statusUrl in the job format, which shows queued', () => {
    const task = stored
    const job = JSON.parse(jobFormat.toText(task, '/job-status/a1')) as Record<string, unknown>
    assert.deepEqual(
      [job['id'], job['state'], job['jobId'], job['statusUrl'], 'taskId' in job, 'status' in job],
      ['a1', 'queued', 'a1', '/job-status/a1', false, false],
    )
    const states = STATES.map(
      (state) => (JSON.parse(jobFormat.toText({ ...stored, status: state }, '')) as { state: string }).state,
    )
    assert.deepEqual(states, STATES)
    assert.equal(taskFormat.toText(task, ''), taskText(task))
  })
})

describe('the result of a task', () => {
  const cases: [string, unknown, unknown][] = [
    ['nothing', undefined, null],
    ['a function', () => 1, null],
    ['null', null, null],
    ['an array', [1], [1]],
    ['text', 'x', 'x'],
    ['an empty object', {}, {}],
    ['an object without a message', { a: 1 }, { a: 1 }],
    ['a message that is not written', { message: () => 1, a: 1 }, { a: 1 }],
    ['an Error', new Error('secret'), {}],
    ['a date', new Date(0), '1970-01-01T00:00:00.000Z'],
    ['toJSON', { toJSON: () => ({ a: 1 }) }, { a: 1 }],
    ['toJSON that gives nothing', { toJSON: () => undefined }, null],
    ['NaN', NaN, null],
  ]
  for (const [title, value, wanted] of cases) {
    test(`may be ${title}`, () => { assert.deepEqual(JSON.parse(toResultText(value)), wanted) })
  }

  test('throws if it is not JSON', () => {
    const circle: Record<string, unknown> = {}
    circle['self'] = circle
    assert.throws(() => toResultText(circle), TypeError)
    assert.throws(() => toResultText({ n: 1n }), TypeError)
  })

  test('is rejected if it contains a Map, a Set or a promise, with the pointer to it', () => {
    const cases: [unknown, RegExp][] = [
      [
        new Map([[1, 2]]),
        /^it is of type Map, which JSON writes as \{\}\. Return an object: Object.fromEntries\(map\)\.$/,
      ],
      [{ a: [{}, { 'b/c': new Set([1]) }] }, /^its property \/a\/1\/b~1c is of type Set, .* Return an array\.$/],
      [{ message: 'm', late: Promise.resolve(1) }, /^its property \/late is of type Promise, .* Await it\.$/],
      [[new ArrayBuffer(8)], /^its property \/0 is of type ArrayBuffer/],
    ]
    for (const [value, message] of cases) assert.throws(() => toResultText(value), { name: 'TypeError', message })
  })

  test('may be an empty object, or a Map with its own JSON form', () => {
    const listed = Object.assign(new Map([[1, 2]]), { toJSON: () => ({ 1: 2 }), empty: {} })
    assert.deepEqual(JSON.parse(toResultText({ empty: {}, listed })), { empty: {}, listed: { 1: 2 } })
    assert.deepEqual(JSON.parse(toResultText([{}, Object.create(null)])), [{}, {}])
  })

  test('is JSON for any value', () => {
    fc.assert(fc.property(fc.anything({ withBigInt: false }), (value) => {
      const text = toResultText(value)
      assert.equal(JSON.stringify(JSON.parse(text)), text)
    }))
  })
})

describe('the failure of a task', () => {
  const hostile = new Proxy({}, { has() { throw new Error('no') }, get() { throw new Error('no') } })
  test('is masked for unknown errors, and visible for an HttpError', () => {
    for (const thrown of [
      new Error('secret'),
      'secret',
      undefined,
      null,
      5,
      { message: 'secret', code: 'secret' },
      hostile,
      Object.freeze(new Error('secret')),
    ]) {
      assert.deepEqual(toFailure(thrown), { status: 500, code: 'task_failed', message: 'The task failed.' })
    }
    assert.deepEqual(toFailure(new HttpError(422, 'no_such_role', { message: 'No such role.' })), {
      status: 422,
      code: 'no_such_role',
      message: 'No such role.',
    })
  })

  test('is permanent if it is marked as permanent, or if it is an HttpError that blames the request', () => {
    assert.equal(isPermanent(new Error('x')), false)
    assert.equal(isPermanent(permanent(new Error('x'))), true)
    const frozen = permanent(Object.freeze(new HttpError(503, 'upstream', { message: 'm' })))
    assert.equal(isPermanent(frozen), true)
    assert.ok(frozen instanceof HttpError)
    assert.deepEqual(toFailure(frozen), { status: 503, code: 'upstream', message: 'm' })
    for (const [code, wanted] of [
      ['conflict', true],
      ['bad_request', true],
      ['too_many_requests', false],
      ['request_timeout', false],
      ['bad_gateway', false],
      ['internal_error', false],
    ] as const) {
      assert.equal(isPermanent(httpError(code)), wanted, code)
    }
    for (const other of [undefined, null, 'x', hostile]) assert.equal(isPermanent(other), false)
  })
})

describe('the id of a task', () => {
  test('has 128 random bits in 22 characters, and never repeats across refills of the pool', () => {
    const ids = new Set(Array.from({ length: 5000 }, newId))
    assert.equal(ids.size, 5000)
    for (const id of ids) assert.match(id, /^[A-Za-z0-9_-]{22}$/)
    assert.ok([...ids].every(isTaskId))
    const bits = [...ids].map((id) => Buffer.from(id, 'base64url'))
    assert.ok(bits.every((bytes) => bytes.length === 16))
    const ones = bits.reduce(
      (sum, bytes) => sum + bytes.reduce((count, byte) => count + byte.toString(2).replaceAll('0', '').length, 0),
      0,
    )
    assert.ok(Math.abs(ones / (5000 * 128) - 0.5) < 0.01, 'they look random')
  })

  test('must be text that can be a part of a key', () => {
    for (const id of ['', '.', '..', '.a', 'a b', 'a/b', 'a%2F', 'é', 'a\n', 'a\0', 'a:b', 'x'.repeat(129)])
      assert.equal(isTaskId(id), false, JSON.stringify(id))
    for (const id of ['a', '-', 'a.b', 'x'.repeat(128)]) assert.equal(isTaskId(id), true)
  })
})

describe('the Idempotency-Key of a task', () => {
  test('is the same key quoted or bare', () => {
    assert.equal(parseIdempotencyKey(undefined), undefined)
    for (const [field, key] of [
      ['abc', 'abc'],
      ['"abc"', 'abc'],
      [' "abc" ', 'abc'],
      ['"a \\"b\\" \\\\"', 'a "b" \\'],
      ['a;b=1', 'a;b=1'],
      ['x'.repeat(255), 'x'.repeat(255)],
    ] as const) {
      assert.equal(parseIdempotencyKey(field), key)
    }
  })

  test('gets a 400 invalid_idempotency_key for anything else', () => {
    for (const field of [
      '',
      ' ',
      '""',
      '"a',
      'a"',
      'a b',
      'a, b',
      '"a", "b"',
      '"a" x',
      '"a\\b"',
      'é',
      'a\tb',
      'a\0',
      'x'.repeat(256),
      `"${'x'.repeat(256)}"`,
      `"${'\\"'.repeat(400)}"`,
      ['a', 'b'],
    ]) {
      assert.throws(
        () => parseIdempotencyKey(field),
        { status: 400, code: 'invalid_idempotency_key' },
        JSON.stringify(field),
      )
    }
  })

  test('has fingerprints that distinguish bodies', () => {
    assert.equal(fingerprintOf({ a: 1 }), fingerprintOf({ a: 1 }))
    assert.equal(new Set([{ a: 1 }, { a: '1' }, [], {}, null, undefined, 'null', ''].map(fingerprintOf)).size, 8)
    assert.notEqual(fingerprintOf(JSON.parse('{"__proto__":{"a":1}}')), fingerprintOf({}))
    assert.equal(
      fingerprintOf(JSON.parse('{"10":1,"9":{"b":1,"a":2}}')),
      fingerprintOf(JSON.parse('{"9":{"a":2,"b":1},"10":1}')),
    )
  })
})

describe('the status path of a task', () => {
  test('contains the id, below a mount path', () => {
    const path = new StatusPath('/api/status/{id}')
    assert.equal(path.of('/v1', 'x'), '/v1/api/status/x')
    assert.equal(path.idIn('/v1', '/v1/api/status/x'), 'x')
    for (const other of [
      '/v1/api/status/', '/v1/api/status', '/api/status/x', '/v1/api/status/x/y',
      '/v1/api/status/x/', '/v2/api/status/x', '',
    ]) {
      assert.equal(path.idIn('/v1', other), undefined, other)
    }
    const tail = new StatusPath('/jobs/{id}/status')
    assert.equal(tail.of('', 'x'), '/jobs/x/status')
    assert.equal(tail.idIn('', '/jobs/x/status'), 'x')
    for (const other of ['/jobs//status', '/jobs/status', '/jobs/x/y/status', '/jobs/x'])
      assert.equal(tail.idIn('', other), undefined, other)
  })

  test('has a template, which is rejected if it is invalid', () => {
    for (const template of [
      '', '/', '/status', 'status/{id}', '/status/{id}/{id}', '/status/x{id}', '/status/{id}x',
      '/{a}/{id}', '/:a/{id}', '/a?b/{id}', '/a b/{id}',
    ]) {
      assert.throws(() => new StatusPath(template), TypeError, template)
    }
  })
})

describe('defineTask', () => {
  test('applies defaults and rejects invalid options', () => {
    const { timeoutMs, attempts, backoff } = defineTask({ name: 'a', run: () => 1 })
    assert.deepEqual(
      { timeoutMs, attempts, backoff },
      { timeoutMs: 600_000, attempts: 1, backoff: { type: 'exponential', delayMs: 1000, jitter: 0.5 } },
    )
    const wrong: Record<string, unknown>[] = [
      { name: '' },
      { name: 'a b' },
      { name: 'x'.repeat(65) },
      { name: 5 },
      { run: 5 },
      { input: {} },
      { timeoutMs: 0 },
      { timeoutMs: NaN },
      { timeoutMs: 2 ** 31 },
      { attempts: 0 },
      { attempts: 1.5 },
      { retentionMs: 999 },
      { retentionMs: Infinity },
      { retentionMs: NaN },
      { maxPerOwner: 0 },
      { maxPerOwner: NaN },
      { maxPerOwner: 2 ** 53 },
      { backoff: { type: 'linear', delayMs: 1 } },
      { backoff: { type: 'fixed', delayMs: -1 } },
      { backoff: { type: 'fixed', delayMs: NaN } },
      { backoff: { type: 'fixed', delayMs: 1, jitter: 2 } },
      { backoff: { type: 'fixed', delayMs: 1, maxDelayMs: -1 } },
    ]
    for (const options of wrong) {
      assert.throws(
        () => defineTask({ name: 'a', run: () => 1, ...options }),
        { name: 'TypeError', message: /^defineTask\(/ },
        JSON.stringify(options),
      )
    }
  })
})

test('the body and the entity tag of a response agree, even if the start of the task comes between them', (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 999 })
  const task = { ...stored, status: 'queued', attempt: 0, startAt: 1000 } as StoredTask
  assert.match(etagOf(task), /-scheduled"$/)
  t.mock.timers.setTime(1000)
  assert.match(jobFormat.toText(task, ''), /"state":"scheduled"/)
  assert.match(etagOf(task), /-scheduled"$/)
})
