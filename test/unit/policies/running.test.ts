import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { describe, test } from 'node:test'
import { compose, type BodySource, type Handler } from '../../../src/http/exchange.js'
import { httpError, type HttpError } from '../../../src/http/errors.js'
import { readBytes } from '../../../src/http/body/body.js'
import { json } from '../../../src/http/respond.js'
import { authorize } from '../../../src/policies/authenticate.js'
import { limitConcurrency } from '../../../src/policies/limits.js'
import { requestId, requestIdOf } from '../../../src/policies/request-id.js'
import { timeouts } from '../../../src/policies/timeouts.js'
import { ask, fakeRequest } from '../kit/request.js'

const ok: Handler = () => json(200, {})
const never = new Promise<never>(() => {})
/** Timers of the policies do not keep the process, so something has to. */
const awake = (t: { after: (end: () => void) => void }): void => {
  const timer = setInterval(() => {}, 1000)
  t.after(() => { clearInterval(timer) })
}
const body = (
  bytes: () => Promise<Uint8Array | undefined>,
  stream: () => AsyncIterable<Uint8Array> = async function* () {
    await never
  },
): BodySource => ({ parsed: undefined, bytes, stream })

describe('timeouts', () => {
  test('SPEC 8.3, 7.503: abort a handler that takes too long, and respond with 503', async (t) => {
    awake(t)
    let reason: unknown
    let closed = false
    const late = async function * () { try { yield 'x' } finally { closed = true } }
    const handler = compose(timeouts({ runMs: 20 }), async ({ signal }) => {
      await new Promise((resolve) => { signal.addEventListener('abort', resolve, { once: true }) })
      reason = signal.reason
      return { status: 200, headers: {}, body: late() }
    })
    const answer = await ask(handler, { method: 'GET' })
    assert.deepEqual(
      [answer.status, answer.json['code'], answer.headers['retry-after']],
      [503, 'run_timeout', '5'],
      'the answer',
    )
    const posted = await ask(handler, { method: 'POST' })
    assert.deepEqual(
      [posted.status, posted.headers['retry-after']],
      [503, undefined],
      'what may have happened is not asked for again',
    )
    assert.equal((reason as { code?: string }).code, 'run_timeout', 'the signal')
    await new Promise((resolve) => { setImmediate(resolve) })
    assert.equal(closed, false, 'a source that never began has nothing to close')
  })

  test('close the unread body of a response that is too late', async (t) => {
    awake(t)
    let told = false
    const source = {
      [Symbol.asyncIterator]: () => ({
        next: () => never,
        return: async () => {
          told = true
          return { done: true as const, value: undefined }
        },
      }),
    }
    let finish: (() => void) | undefined
    const handler = compose(
      timeouts({ runMs: 5 }),
      () =>
        new Promise((resolve) => {
          finish = () => {
            resolve({ status: 200, headers: {}, body: source })
          }
        }),
    )
    assert.equal((await ask(handler)).status, 503)
    finish?.()
    for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate)
    assert.equal(told, true)
  })

  test('respond with 503 and not with 408 if the handler is late after it has read its body, as a whole or in chunks', async (t) => {
    awake(t)
    const sent = body(async () => new Uint8Array(1), async function * () { yield new Uint8Array(1) })
    for (const read of [
      (from: BodySource) => from.bytes(10),
      async (from: BodySource) => {
        for await (const _ of from.stream());
      },
    ]) {
      const handler = compose(timeouts({ runMs: 20, readMs: 10_000 }), async (asked) => {
        await read(asked.body)
        return await never
      })
      assert.equal((await ask(handler, { body: sent })).json['code'], 'run_timeout')
    }
  })

  test('release a body whose reader stops, but not a body that ends, and keep a parsed body available', async () => {
    let returned = 0
    const pieces = { [Symbol.asyncIterator]: () => {
      let left = 2
      return {
        next: async () =>
          left-- > 0 ? { done: false as const, value: new Uint8Array(1) } : { done: true as const, value: undefined },
        return: async () => {
          returned++
          return { done: true as const, value: undefined }
        },
      }
    } }
    const source = { ...body(async () => undefined, () => pieces), parsed: { value: 7 } }
    const counts: unknown[] = []
    for (const most of [1, 9]) {
      const handler = compose(timeouts({ readMs: 1000 }), async ({ body: own }) => {
        let count = 0
        for await (const _ of own.stream()) if (++count === most) break
        return json(200, [count, own.parsed?.value])
      })
      counts.push((await ask(handler, { body: source })).body, returned)
    }
    assert.deepEqual(counts, ['[1,7]', 1, '[2,7]', 1])
  })

  test('do not report a failure after the time-out', async (t) => {
    awake(t)
    const handler = compose(timeouts({ runMs: 10 }), async ({ signal }) => {
      await new Promise((resolve) => { signal.addEventListener('abort', resolve, { once: true }) })
      throw new Error('too late')
    })
    assert.equal((await ask(handler)).json['code'], 'run_timeout', 'the answer')
  })

  test('respond with 408 if a body does not arrive, read as a whole or in chunks', async (t) => {
    awake(t)
    const slow = body(() => never)
    assert.deepEqual(
      (
        await ask(
          compose(timeouts({ readMs: 10 }), async (request) =>
            json(200, await readBytes(request, { maxBodyBytes: 10 })),
          ),
          { body: slow },
        )
      ).status,
      408,
      'at once',
    )
    const inPieces: Handler = async (request) => {
      for await (const piece of request.body.stream()) assert.ok(piece, 'a piece')
      return json(200, {})
    }
    assert.equal((await ask(compose(timeouts({ readMs: 10 }), inPieces), { body: slow })).status, 408, 'in pieces')
    const steady = body(
      () => never,
      async function* () {
        for (let at = 0; at < 10; at++) {
          await new Promise((resolve) => {
            setTimeout(resolve, 10)
          })
          yield new Uint8Array(1)
        }
      },
    )
    assert.equal(
      (await ask(compose(timeouts({ readMs: 80 }), inPieces), { body: steady })).status,
      200,
      'each piece has its own time',
    )
    const whole: Handler = async (request) => json(200, (await readBytes(request, { maxBodyBytes: 10 })).byteLength)
    assert.equal(
      (await ask(compose(timeouts({ readMs: 80 }), whole), { body: steady })).status,
      408,
      'the whole body has one time',
    )
    assert.equal(
      (await ask(compose(timeouts({ runMs: 10 }), inPieces), { body: slow })).status,
      408,
      'a run that waits for its body',
    )
  })

  test('pass on all chunks of a body that arrives in time', async () => {
    const echo: Handler = async (request) => {
      const pieces: Uint8Array[] = []
      for await (const piece of request.body.stream()) pieces.push(piece)
      return json(200, Buffer.concat(pieces).toString())
    }
    const quick = body(() => never, async function * () { yield Buffer.from('one '); yield Buffer.from('two') })
    assert.equal((await ask(compose(timeouts({ readMs: 1000 }), echo), { body: quick })).json, 'one two')
  })

  test('do not abort a response whose headers are in time', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    let inner: AbortSignal | undefined
    let closed = false
    const handler = compose(timeouts({ runMs: 50 }), async ({ signal }) => {
      inner = signal
      return { status: 200, headers: {}, body: (async function * () { try { yield 'x' } finally { closed = true } })() }
    })
    const { body: source } = await ask(handler)
    t.mock.timers.tick(1000)
    assert.deepEqual([inner?.aborted, closed], [false, false])
    const got: unknown[] = []
    for await (const piece of source as AsyncIterable<string>) got.push(piece)
    assert.deepEqual(got, ['x'])
  })

  test('do not change a response or an error that is in time', async () => {
    assert.equal((await ask(compose(timeouts({ runMs: 1000, readMs: 1000 }), ok))).status, 200, 'direct')
    assert.equal((await ask(compose(timeouts({ runMs: 1000 }), async () => json(201, {})))).status, 201, 'later')
    assert.equal(
      (
        await ask(
          compose(timeouts({ runMs: 1000 }), async () => {
            throw httpError('conflict')
          }),
        )
      ).status,
      409,
      'its failure',
    )
    assert.throws(() => timeouts({}), TypeError, 'nothing set')
    for (const ms of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31]) {
      assert.throws(() => timeouts({ runMs: ms }), TypeError, `runMs ${ms}`)
      assert.throws(() => timeouts({ readMs: ms }), TypeError, `readMs ${ms}`)
    }
    assert.doesNotThrow(() => timeouts({ readMs: 2 ** 31 - 1 }))
  })
})

describe('limitConcurrency', () => {
  test('gives one caller at most maxPerCaller running and waiting requests, and other callers keep their places', async () => {
    const waiting: (() => void)[] = []
    const limited = compose(
      limitConcurrency({
        maxConcurrent: 2,
        maxQueued: 10,
        maxWaitMs: 60_000,
        maxPerCaller: 3,
        by: ({ headers }) => headers['x-user'] as string | undefined,
      }),
      () =>
        new Promise((resolve) => {
          waiting.push(() => {
            resolve(json(200, {}))
          })
        }),
    )
    const send = async (user?: string) =>
      limited(fakeRequest({ headers: { ...(user !== undefined && { 'x-user': user }) } }))
    const anns = [send('ann'), send('ann'), send('ann')]
    await assert.rejects(
      send('ann'),
      (error: HttpError) => error.code === 'too_many_requests' && error.headers['retry-after'] === '1',
    )
    const others = [send('ben'), send(), send(), send(), send()]
    while (waiting.length > 0) {
      waiting.shift()?.()
      await new Promise(setImmediate)
    }
    for (const answer of await Promise.all([...anns, ...others])) assert.equal(answer?.status, 200)
    const again = send('ann')
    await new Promise(setImmediate)
    waiting.shift()?.()
    assert.equal((await again)?.status, 200)
    for (const maxPerCaller of [0, -1, 1.5])
      assert.throws(() => limitConcurrency({ maxConcurrent: 1, maxPerCaller }), /maxPerCaller/)
  })

  test('takes principals as callers by default, and addresses if there is no principal', async () => {
    const held: (() => void)[] = []
    const limited = compose(
      limitConcurrency({ maxConcurrent: 10, maxPerCaller: 1 }),
      () =>
        new Promise((resolve) => {
          held.push(() => {
            resolve(json(200, {}))
          })
        }),
    )
    const send = async (subject: string | undefined, peerAddress: string) => limited({
      ...fakeRequest(), peerAddress, context: subject === undefined ? {} : { principal: { subject } },
    })
    const running = [
      send('ann', '192.0.2.1'),
      send('ben', '192.0.2.1'),
      send(undefined, '192.0.2.1'),
      send(undefined, '192.0.2.2'),
    ]
    await assert.rejects(send('ann', '192.0.2.9'), { code: 'too_many_requests' })
    await assert.rejects(send(undefined, '192.0.2.2'), { code: 'too_many_requests' })
    for (const go of held) go()
    for (const answer of await Promise.all(running)) assert.equal(answer?.status, 200)
  })

  test('applies the limit to waiting requests and to later ones', async (t) => {
    awake(t)
    let [running, most] = [0, 0]
    const limited = compose(limitConcurrency({ maxConcurrent: 2, maxQueued: 20, maxWaitMs: 60_000 }), async () => {
      most = Math.max(most, ++running)
      await new Promise(setImmediate)
      running--
      return json(200, {})
    })
    for (const wave of [1, 2, 3]) {
      const answers = await Promise.all(Array.from({ length: 7 }, () => ask(limited)))
      assert.deepEqual(answers.map(({ status }) => status), Array(7).fill(200), `wave ${wave}`)
      assert.equal(most, 2, `wave ${wave}`)
    }
  })

  test('has no timer for a running request', async (t) => {
    const cleared = t.mock.method(globalThis, 'clearTimeout')
    const waiting: (() => void)[] = []
    const limited = compose(
      limitConcurrency({ maxConcurrent: 1, maxQueued: 1, maxWaitMs: 60_000 }),
      () =>
        new Promise((resolve) => {
          waiting.push(() => resolve(json(200, {})))
        }),
    )
    const [first, second] = [ask(limited), ask(limited)]
    waiting.shift()?.()
    await first
    while (waiting.length === 0) await new Promise(setImmediate)
    assert.equal(cleared.mock.callCount(), 1)
    waiting.shift()?.()
    assert.equal((await second).status, 200)
  })

  const gate = () => {
    const open: (() => void)[] = []
    const handler: Handler = () =>
      new Promise((resolve) => {
        open.push(() => {
          resolve({ status: 200, headers: {} })
        })
      })
    return { open, handler }
  }
  const tick = () => new Promise((resolve) => { setImmediate(resolve) })

  test('SPEC 7.503: runs maxConcurrent requests, lets maxQueued requests wait in order, and responds to others with 503 at once', async () => {
    const { open, handler } = gate()
    const limited = compose(limitConcurrency({ maxConcurrent: 2, maxQueued: 2, maxWaitMs: 60_000 }), handler)
    const asked = Array.from({ length: 4 }, () => ask(limited))
    const refused = await ask(limited)
    assert.deepEqual(
      [refused.status, refused.json['code'], refused.headers['retry-after'], open.length],
      [503, 'overloaded', '1', 2],
      'the fifth',
    )
    open[0]?.()
    await asked[0]
    await tick()
    assert.equal(open.length, 3, 'the next one runs')
    open[1]?.()
    open[2]?.()
    await tick()
    await tick()
    open[3]?.()
    assert.deepEqual(
      (await Promise.all(asked)).map(({ status }) => status),
      [200, 200, 200, 200],
      'all of them',
    )
    const again = ask(limited)
    await tick()
    open[4]?.()
    assert.equal((await again).status, 200, 'and there is room again')
  })

  test('removes a request from the queue if it waits too long, or if its client disconnects', async (t) => {
    awake(t)
    const { open, handler } = gate()
    const limited = compose(limitConcurrency({ maxConcurrent: 1, maxQueued: 1, maxWaitMs: 20 }), handler)
    const first = ask(limited)
    assert.equal((await ask(limited)).json['code'], 'overloaded', 'too long')
    const leaving = new AbortController()
    const second = ask(limited, { signal: leaving.signal })
    leaving.abort()
    assert.equal((await second).status, 503, 'left')
    const third = ask(limited)
    open[0]?.()
    await first
    await tick()
    open[1]?.()
    assert.equal((await third).status, 200, 'its place was free')
    assert.equal(open.length, 2, 'and nobody else ran')
  })

  test('leaves no listener on the signal of a running or rejected request', async (t) => {
    awake(t)
    const { open, handler } = gate()
    const limited = compose(limitConcurrency({ maxConcurrent: 1, maxQueued: 2, maxWaitMs: 20 }), handler)
    const { signal } = new AbortController()
    const first = ask(limited)
    const [second, third] = [ask(limited, { signal }), ask(limited, { signal })]
    assert.equal(getEventListeners(signal, 'abort').length, 2, 'both wait')
    open[0]?.()
    await first
    await tick()
    assert.equal(getEventListeners(signal, 'abort').length, 1, 'one runs')
    assert.equal((await third).status, 503, 'too late')
    assert.equal(getEventListeners(signal, 'abort').length, 0, 'and none waits')
    open[1]?.()
    assert.equal((await second).status, 200)
  })

  test('frees the place of a request that ends at once', async () => {
    const limited = compose(limitConcurrency({ maxConcurrent: 1 }), ok)
    for (let time = 0; time < 3; time++) assert.equal((await ask(limited)).status, 200, String(time))
  })

  test('frees the place after an error, thrown or rejected', async () => {
    for (const failing of [() => { throw new Error('x') }, () => Promise.reject(new Error('x'))]) {
      const limited = compose(limitConcurrency({ maxConcurrent: 1 }), failing)
      for (let time = 0; time < 3; time++) assert.equal((await ask(limited)).status, 500, 'its own failure')
    }
    assert.doesNotThrow(() => limitConcurrency({ maxConcurrent: 1, maxQueued: 0, maxWaitMs: 1 }), 'the least')
    for (const options of [
      { maxConcurrent: 0 },
      { maxConcurrent: 1, maxQueued: -1 },
      { maxConcurrent: 1, maxWaitMs: 0 },
    ])
      assert.throws(() => limitConcurrency(options), TypeError, JSON.stringify(options))
  })
})

describe('requestId', () => {
  const shows: Handler = (request) => json(200, { id: requestIdOf(request) })
  test('sets an id, even on errors, and uses the id of the request only if it is trusted', async () => {
    const [first, second] = [await ask(compose(requestId(), shows)), await ask(compose(requestId(), shows))]
    assert.match(String(first.json['id']), /^[\w-]{22}$/, 'an id')
    assert.equal(first.headers['x-request-id'], first.json['id'], 'the same in the field')
    assert.notEqual(first.json['id'], second.json['id'], 'each its own')
    assert.match(
      String(
        (
          await ask(
            compose(requestId(), () => {
              throw new Error('x')
            }),
          )
        ).headers['x-request-id'],
      ),
      /^[\w-]{22}$/,
      'a failure',
    )
    const sent = { headers: { 'x-request-id': 'abc-1' } }
    assert.notEqual((await ask(compose(requestId(), shows), sent)).json['id'], 'abc-1', 'not trusted')
    assert.equal((await ask(compose(requestId({ trust: true }), shows), sent)).json['id'], 'abc-1', 'trusted')
    assert.notEqual(
      (await ask(compose(requestId({ trust: true }), shows), { headers: { 'x-request-id': 'a<b>' } })).json['id'],
      'a<b>',
      'harmful',
    )
    assert.throws(
      () => compose(authorize({ allow: () => true, reason: 'x' }), requestId(), shows),
      /requestId first/,
      'outermost',
    )
  })
})
