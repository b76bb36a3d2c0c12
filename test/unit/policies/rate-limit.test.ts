import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, test } from 'node:test'
import { memory } from '../../../adapters/memory/index.js'
import { compose, type Handler } from '../../../src/http/exchange.js'
import { httpError } from '../../../src/http/errors.js'
import { json } from '../../../src/http/respond.js'
import { authenticate } from '../../../src/policies/authenticate.js'
import { bearer, tokens } from '../../../src/policies/schemes.js'
import {
  bodyBytes, consume, rateLimit, type RateLimitOptions,
} from '../../../src/policies/rate-limit.js'
import { clientAddress } from '../../../src/http/client-address.js'
import { StoreUnavailableError, type Store } from '../../../src/stores/store.js'
import { ask, request } from '../kit/request.js'

const ok: Handler = () => json(200, {})
const as = (subject: string) => ({ context: { principal: { subject } } })

function limited(
  policies: RateLimitOptions['policies'],
  more: Partial<RateLimitOptions> = {},
  handler: Handler = ok,
): Handler {
  return compose(rateLimit({ store: memory().store, onStoreError: 'deny', policies, ...more }), handler)
}
const three = { name: 'default', limit: 3, windowSeconds: 60 }
const only = (increment: Store['increment']): Store => ({ increment } as Partial<Store> as Store)
const away = only(() => Promise.reject(new StoreUnavailableError('away')))

describe('rateLimit', () => {
  test('SPEC 8.2, 7.429: passes requests up to the limit, and then responds with 429 and Retry-After until the window ends', async (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(2026, 0, 1) })
    const handler = limited([three])
    for (const left of [2, 1, 0]) {
      const { status, headers } = await ask(handler, as('ann'))
      assert.equal(status, 200, 'passes')
      assert.equal(headers['ratelimit-policy'], '"default";q=3;w=60', 'the policy')
      assert.equal(headers['ratelimit'], `"default";r=${left};t=60`, 'what is left')
    }
    const refused = await ask(handler, as('ann'))
    assert.deepEqual(
      [refused.status, refused.json['code'], refused.headers['retry-after']],
      [429, 'too_many_requests', '60'],
      'refused',
    )
    assert.equal(refused.headers['ratelimit'], '"default";r=0;t=60', 'said with the refusal')
    assert.equal((await ask(handler, as('bob'))).status, 200, 'somebody else')
  })

  test('begins a new window with the next request after the end of a window', async (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: Date.UTC(2026, 0, 1) })
    const counters = new Map<string, { value: number, resetAt: number }>()
    const store = only(async (key, by, { ttlMs }) => {
      const before = counters.get(key)
      const live =
        before !== undefined && before.resetAt > Date.now() ? before : { value: 0, resetAt: Date.now() + ttlMs }
      const counter = { ...live, value: live.value + by }
      counters.set(key, counter)
      return { value: counter.value, resetMs: counter.resetAt - Date.now() }
    })
    const handler = limited([three], { store })
    for (let time = 0; time < 4; time++) await ask(handler, as('ann'))
    t.mock.timers.tick(59_999)
    assert.equal((await ask(handler, as('ann'))).status, 429, 'just before')
    t.mock.timers.tick(1)
    assert.equal((await ask(handler, as('ann'))).status, 200, 'just after')
  })

  test('never passes more than the limit of a hundred concurrent requests', async () => {
    const handler = limited([{ ...three, limit: 37 }])
    const answers = await Promise.all(Array.from({ length: 100 }, () => ask(handler, as('ann'))))
    assert.equal(answers.filter(({ status }) => status === 200).length, 37, 'exactly')
  })

  test('rejects a cost above the remaining limit without a charge, responds with 413 to a cost above the whole limit, and accepts a cost of 0', async () => {
    const handler = limited([
      { name: 'items', limit: 10, windowSeconds: 60, cost: ({ headers }) => Number(headers['x-items']) },
    ])
    const cost = async (items: number): Promise<string> => {
      const { status, headers } = await ask(handler, { ...as('ann'), headers: { 'x-items': String(items) } })
      return `${status} ${String(headers['ratelimit']).split(';')[1] ?? ''}`
    }
    assert.deepEqual(
      [await cost(7), await cost(4), await cost(3), await cost(0), await cost(1), await cost(0)],
      ['200 r=3', '429 r=3', '200 r=0', '200 r=0', '429 r=0', '200 r=0'],
      'one after the other',
    )
    assert.match(await cost(11), /^413/, 'never')
    assert.match(await cost(Number.NaN), /^500/, 'a mistake of the host')
  })

  test('never shares a counter between kinds of callers, and has a short and valid key for any name', async () => {
    const keyOf = async (
      by: 'principal' | 'address' | ((asked: unknown) => string | undefined),
      what: Parameters<typeof ask>[1],
    ): Promise<string | undefined> => {
      let found: string | undefined
      const store = only((key, value, { ttlMs }) => {
        found = key
        return { value, resetMs: ttlMs }
      })
      assert.equal((await ask(limited([{ ...three, by }], { store }), what)).status, 200)
      return found
    }
    const from = { peerAddress: '192.0.2.1' }
    assert.deepEqual(
      [
        await keyOf('principal', { ...as('192.0.2.1'), ...from }),
        await keyOf('principal', from),
        await keyOf('address', { ...as('ann'), ...from }),
        await keyOf('principal', {}),
        await keyOf(() => '192.0.2.1', from),
        await keyOf(() => undefined, from),
      ],
      [
        'rl:default:p:192.0.2.1', 'rl:default:a:192.0.2.1', 'rl:default:a:192.0.2.1',
        'rl:default:a:unknown', 'rl:default:k:192.0.2.1', undefined,
      ],
    )
    const odd = ['ann\nbob', '', '#', 'ä', '\ud800', '\ud801', 'x'.repeat(129), 'x'.repeat(1000)]
    const keys = await Promise.all(odd.map((subject) => keyOf('principal', as(subject))))
    for (const key of keys) assert.match(key ?? '', /^rl:default:p:#[\w-]{43}$/)
    assert.equal(new Set(keys).size, odd.length)
  })

  test('lets consume charge the limits of every rateLimit in front of the handler', async () => {
    const store = memory().store
    const policy = (name: string) =>
      rateLimit({ store, onStoreError: 'deny', policies: [{ name, limit: 10, windowSeconds: 60 }] })
    const handler = compose(policy('outer'), policy('inner'), async (asked) => {
      await consume(asked, 4)
      return json(200, {})
    })
    const { headers } = await ask(handler, as('ann'))
    assert.deepEqual(
      String(headers['ratelimit'])
        .split(', ')
        .map((each) => each.split(';').slice(0, 2).join(';')),
      ['"inner";r=5', '"outer";r=5'],
    )
    const named = compose(policy('a'), policy('b'), async (asked) => {
      await consume(asked, 4, 'a')
      return json(200, {})
    })
    assert.match(String((await ask(named, as('ann'))).headers['ratelimit']), /^"b";r=9;t=\d+, "a";r=5;t=\d+$/)
  })

  test('can count the announced bytes with bodyBytes', () => {
    const cost = bodyBytes(1000)
    for (const unit of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])
      assert.throws(() => bodyBytes(unit), /bodyBytes: unit/, String(unit))
    for (const [length, expected] of [
      [undefined, 1],
      ['0', 1],
      ['1', 1],
      ['1000', 1],
      ['1001', 2],
      ['x', 1],
    ] as const) {
      assert.equal(
        cost(request({ headers: length === undefined ? {} : { 'content-length': length } })),
        expected,
        String(length),
      )
    }
  })

  test('can be charged later by consume, before the work, and the response shows the rest', async () => {
    let done = 0
    const handler = limited(
      [
        { ...three, name: 'requests', limit: 100 },
        { name: 'items', limit: 10, windowSeconds: 60, cost: () => 0 },
      ],
      {},
      async (inner) => {
        await consume(inner, 6, 'items')
        done++
        return json(200, {})
      },
    )
    const first = await ask(handler, as('ann'))
    assert.equal(first.headers['ratelimit'], '"requests";r=99;t=60, "items";r=4;t=60', 'both')
    const second = await ask(handler, as('ann'))
    assert.deepEqual([second.status, done], [429, 1], 'refused before the work')
    assert.equal(await consume(request(), 5), undefined, 'without a limit nothing happens')
    await assert.rejects(consume(request(), -1), TypeError, 'no refunds')
  })

  test('stops at the first limit that rejects a request, and does not charge later limits', async () => {
    const handler = limited([
      { ...three, name: 'burst', limit: 2 },
      { ...three, name: 'day', limit: 100, windowSeconds: 86_400 },
    ])
    for (let time = 0; time < 10; time++) await ask(handler, as('ann'))
    const { status, headers } = await ask(handler, as('ann'))
    assert.equal(status, 429, 'refused')
    assert.equal(headers['ratelimit-policy'], '"burst";q=2;w=60, "day";q=100;w=86400', 'both policies')
    const store = memory().store
    const both = compose(
      rateLimit({
        store,
        onStoreError: 'deny',
        policies: [
          { ...three, name: 'burst', limit: 2 },
          { ...three, name: 'day', limit: 100 },
        ],
      }),
      ok,
    )
    for (let time = 0; time < 10; time++) await ask(both, as('ann'))
    assert.equal((await store.increment('rl:day:p:ann', 0, { ttlMs: 1000 })).value, 2, 'the day counts what passed')
  })

  test('cannot be evaded by forged headers and similar names', async () => {
    const handler = limited([three])
    const spoofs = ['10.0.0.1', '1.2.3.4, 5.6.7.8', '::1', ''].map((text) => ({
      'x-forwarded-for': text,
      'forwarded': `for=${text}`,
      'x-real-ip': text,
    }))
    const statuses = []
    for (const headers of spoofs) statuses.push((await ask(handler, { peerAddress: '192.0.2.1', headers })).status)
    assert.deepEqual(statuses, [200, 200, 200, 429], 'one address')
    assert.equal((await ask(handler, as('a:192.0.2.1'))).status, 200, 'a subject named like an address')
    const odd = ['x\ud800', 'x\ud801', 'a b', 'a\0b', 'y'.repeat(4000)]
    for (const subject of odd)
      assert.equal((await ask(handler, as(subject))).headers['ratelimit'], '"default";r=2;t=60', 'a counter of its own')
  })

  test('adds its headers to errors of the handler, and declined requests stay declined', async () => {
    const failing = limited([three], {}, () => { throw httpError('not_found') })
    const { status, headers } = await ask(failing, as('ann'))
    assert.deepEqual([status, headers['ratelimit']], [404, '"default";r=2;t=60'], 'a 404')
    assert.equal((await ask(limited([three], {}, () => undefined))).status, 0, 'not mine')
  })

  test('obeys onStoreError while the store is unavailable', async () => {
    const denied = await ask(limited([three], { store: away, onStoreError: 'deny' }), as('ann'))
    assert.deepEqual(
      [denied.status, denied.json['code'], denied.headers['retry-after']],
      [503, 'store_unavailable', '5'],
      'deny',
    )
    const heard: unknown[] = []
    const listener = (event: unknown): void => { heard.push((event as { outcome: string }).outcome) }
    subscribe('longhaul:rate-limit', listener)
    try {
      assert.equal(
        (await ask(limited([three], { store: away, onStoreError: 'allow' }), as('ann'))).status,
        200,
        'allow',
      )
      const handler = limited([{ ...three, limit: 1 }])
      await ask(handler)
      await ask(handler)
    } finally {
      unsubscribe('longhaul:rate-limit', listener)
    }
    assert.deepEqual(heard, ['store_away', 'refused'], 'told')
    const broken = only(() => Promise.reject(new Error('a bug')))
    assert.equal(
      (await ask(limited([three], { store: broken, onStoreError: 'allow' }), as('ann'))).status,
      500,
      'a bug is no outage',
    )
  })

  test('makes one call of the store for a cost of 1, checks a higher cost first, and adds the headers to a free request', async () => {
    const { store } = memory()
    const asked: number[] = []
    const counting = only((key, by, options) => {
      asked.push(by)
      return store.increment(key, by, options)
    })
    for (const [cost, expected] of [
      [1, [1]],
      [0, [0]],
      [2, [0, 2]],
    ] as const) {
      asked.length = 0
      assert.equal(
        (await ask(limited([{ ...three, cost: () => cost }], { store: counting }), as(`costs ${cost}`))).status,
        200,
        String(cost),
      )
      assert.deepEqual(asked, expected, String(cost))
    }
  })

  test('invalid options throw at construction', () => {
    const { store } = memory()
    const wrong: [Partial<RateLimitOptions>, RegExp][] = [
      [{ onStoreError: undefined as never }, /onStoreError/],
      [{ store: undefined as never }, /store/],
      [{ policies: [] }, /one or more/],
      [{ policies: [three, three] }, /one name/],
      [{ policies: [{ ...three, name: 'a b' }] }, /name/],
      [{ policies: [{ ...three, limit: 0 }] }, /limit/],
      [{ policies: [{ ...three, windowSeconds: 0.5 }] }, /windowSeconds/],
      [{ trustedProxies: ['localhost'] }, /trustedProxies/],
      [{ ipv6Prefix: 0 }, /ipv6Prefix/],
      [{ ipv6Prefix: 129 }, /ipv6Prefix/],
      [{ ipv6Prefix: 1.5 }, /ipv6Prefix/],
      [{ prefix: 'a b' }, /prefix/],
    ]
    for (const [options, what] of wrong) {
      assert.throws(
        () => rateLimit({ store, onStoreError: 'deny', policies: [three], ...options }),
        (error) => error instanceof TypeError && what.test(error.message),
        String(what),
      )
    }
    for (const ipv6Prefix of [1, 128])
      assert.doesNotThrow(
        () => rateLimit({ store, onStoreError: 'deny', policies: [three], ipv6Prefix }),
        String(ipv6Prefix),
      )
    const who = authenticate({ schemes: [bearer({ verify: tokens({ t: { subject: 'ann' } }) })] })
    const limit = (by: 'principal' | 'address') =>
      rateLimit({ store, onStoreError: 'deny', policies: [{ ...three, by }] })
    assert.throws(() => compose(limit('principal'), who, ok), /rateLimit stands before authenticate/, 'by principal')
    assert.doesNotThrow(() => compose(limit('address'), who, limit('principal'), ok), 'by address')
  })
})

describe('several rate limits, with a synchronous or an asynchronous store', () => {
  for (const [when, at] of [
    ['at once', <T>(value: T) => value],
    ['late', <T>(value: T) => Promise.resolve(value)],
  ] as const) {
    test(`are charged and shown once each if they apply, ${when}`, async () => {
      const charged: [string, number][] = []
      const store = only((key, by, { ttlMs }) => {
        charged.push([key, by])
        return at({ value: by, resetMs: ttlMs })
      })
      const handler = limited(
        [
          { ...three, name: 'a', by: () => 'x' },
          { ...three, name: 'b', by: () => undefined },
          { ...three, name: 'c', by: () => 'z' },
          { ...three, name: 'd', by: () => 'w' },
        ],
        { store },
      )
      const { status, headers } = await ask(handler)
      assert.equal(status, 200)
      assert.deepEqual(charged, [
        ['rl:a:k:x', 1],
        ['rl:c:k:z', 1],
        ['rl:d:k:w', 1],
      ])
      assert.equal(headers['ratelimit'], '"a";r=2;t=60, "c";r=2;t=60, "d";r=2;t=60')
    })

    test(`are not charged by consume if they do not apply, ${when}`, async () => {
      const charged: [string, number][] = []
      const store = only((key, by, { ttlMs }) => {
        charged.push([key, by])
        return at({ value: by, resetMs: ttlMs })
      })
      const policies = [
        { ...three, name: 'a', by: () => undefined },
        { ...three, name: 'b', by: () => 'y' },
      ]
      const handler = limited(policies, { store }, async (asked) => {
        await consume(asked, 1)
        return json(200, {})
      })
      assert.equal((await ask(handler)).status, 200)
      assert.deepEqual(charged, [
        ['rl:b:k:y', 1],
        ['rl:b:k:y', 1],
      ])
    })
  }

  test('treat a cost that is not a whole number from 0 as an error of the application', async () => {
    for (const cost of [-1, 0.5, Number.NaN, 2 ** 53]) {
      const { status, heard } = await ask(limited([{ ...three, cost: () => cost }]), as('ann'))
      assert.equal(status, 500, String(cost))
      assert.match(String(heard[0]), /the cost of default must be a whole number/, String(cost))
    }
  })

  test('accept a request with a cost of 0 if no limit is left', async () => {
    const costs = [3, 0, 1]
    const handler = limited([{ ...three, cost: () => costs.shift() ?? 1 }])
    const told = [await ask(handler, as('ann')), await ask(handler, as('ann')), await ask(handler, as('ann'))]
    assert.deepEqual(told.map(({ status }) => status), [200, 200, 429])
  })
})

describe('rateLimit: bounds', () => {
  test('counts each started unit, and one unit for a body without a length, with bodyBytes', () => {
    const cost = (length: string | undefined, unit?: number): number =>
      bodyBytes(unit)(request({ headers: length === undefined ? {} : { 'content-length': length } }))
    assert.deepEqual(['0', '1', '1024', '1025', undefined, 'x'].map((length) => cost(length)), [1, 1, 1, 2, 1, 1])
    assert.equal(cost('7', 1), 7, 'the least unit')
  })

  test('accepts the smallest limit, the shortest window and the longest name', async () => {
    const make = (name: string, limit: number, windowSeconds: number) => () =>
      rateLimit({ store: memory().store, onStoreError: 'deny', policies: [{ name, limit, windowSeconds }] })
    assert.doesNotThrow(make('n'.repeat(64), 1, 1))
    for (const wrong of [make('n'.repeat(65), 1, 1), make('n', 0, 1), make('n', 1, 0)]) assert.throws(wrong, TypeError)
    assert.equal(await consume(request(), 0), undefined, 'nothing may be charged')
  })
})

describe('clientAddress: bounds', () => {
  const seen = (forwarded: string, trustedProxies: string[], peerAddress = '10.0.0.1') =>
    clientAddress({ trustedProxies })(request({ peerAddress, headers: { 'x-forwarded-for': forwarded } }))

  test('reads at most sixteen addresses', () => {
    const hops = (count: number): string => `1.2.3.4${', 10.0.0.2'.repeat(count)}`
    assert.deepEqual([seen(hops(15), ['10.0.0.0/8']), seen(hops(16), ['10.0.0.0/8'])], ['1.2.3.4', '10.0.0.2'])
  })
  test('trusts only the given address if trustedProxies is a single address', () => {
    assert.deepEqual(
      [seen('1.2.3.4', ['10.0.0.1']), seen('1.2.3.4', ['10.0.0.0']), seen('1.2.3.4', ['11.0.0.1'])],
      ['1.2.3.4', '10.0.0.1', '10.0.0.1'],
    )
    assert.deepEqual(
      ['2001:db8::1', '2001:db8::'].map((own) => seen('1.2.3.4', [own], '2001:db8::1')),
      ['1.2.3.4', '2001:db8::/64'],
    )
  })
  test('counts a peer without a network address, such as on a Unix socket, under its own name', () => {
    assert.equal(clientAddress({})(request({ peerAddress: 'unix:' })), 'unix:')
  })
  test('takes the last of several header lines as the newest', () => {
    const headers = { 'x-forwarded-for': ['6.6.6.6', '10.0.0.3'] }
    assert.equal(
      clientAddress({ trustedProxies: ['10.0.0.0/8'] })(request({ peerAddress: '10.0.0.1', headers })),
      '6.6.6.6',
    )
  })
})

describe('clientAddress', () => {
  const trustedProxies = ['127.0.0.1', '10.0.0.0/8', '2001:db8:ffff::/48']
  const rows: [
    peer: string | undefined,
    forwarded: string | string[] | undefined,
    expected: string | undefined,
    trusting?: boolean,
  ][] = [
    [undefined, '1.2.3.4', undefined],
    ['192.0.2.1', undefined, '192.0.2.1'],
    ['192.0.2.1', '1.2.3.4', '192.0.2.1'],
    ['127.0.0.1', '1.2.3.4', '127.0.0.1', false],
    ['127.0.0.1', '1.2.3.4', '1.2.3.4'],
    ['::ffff:127.0.0.1', '1.2.3.4', '1.2.3.4'],
    ['::ffff:192.0.2.1', undefined, '192.0.2.1'],
    ['10.9.9.9', '6.6.6.6, 1.2.3.4', '1.2.3.4'],
    ['10.9.9.9', ['6.6.6.6', '1.2.3.4'], '1.2.3.4'],
    ['10.9.9.9', '6.6.6.6, 1.2.3.4, 10.0.0.2', '1.2.3.4'],
    ['10.9.9.9', '10.0.0.1, 10.0.0.2', '10.0.0.1'],
    ['10.9.9.9', 'nonsense, 10.0.0.2', '10.0.0.2'],
    ['10.9.9.9', 'nonsense', '10.9.9.9'],
    ['10.9.9.9', '', '10.9.9.9'],
    ['10.9.9.9', '1.2.3.4,', '10.9.9.9'],
    ['10.9.9.9', '1.2.3.4:5678', '1.2.3.4'],
    ['10.9.9.9', '[2001:db8:1:2:3::4]:5678', '2001:db8:1:2::/64'],
    ['10.9.9.9', '0x01020304', '10.9.9.9'],
    ['10.9.9.9', '16909060', '10.9.9.9'],
    ['2001:db8:ffff::1', '2001:db8:1:2:aaaa:bbbb:cccc:dddd', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::1', undefined, '2001:db8:1:2::/64'],
    ['2001:DB8:1:2:ffff::', undefined, '2001:db8:1:2::/64'],
    ['2001:db8:1:3::1', undefined, '2001:db8:1:3::/64'],
  ]
  for (const [peerAddress, forwarded, expected, trusting = true] of rows) {
    test(`gives ${expected} for ${peerAddress} with ${JSON.stringify(forwarded)}${trusting ? '' : ', without trust'}`, () => {
      const find = clientAddress(trusting ? { trustedProxies } : {})
      const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
      assert.equal(
        find(request({ headers, ...(peerAddress === undefined ? {} : { peerAddress }) })),
        expected,
        'the network',
      )
    })
  }
  test('accepts a prefix that is not a whole number of bytes, and a header without end', () => {
    assert.equal(
      clientAddress({ ipv6Prefix: 60 })(request({ peerAddress: '2001:db8:1:2f::1' })),
      '2001:db8:1:20::/60',
      'prefix',
    )
    const long = `1.2.3.4, ${'10.0.0.1, '.repeat(5000)}10.0.0.1`
    assert.equal(
      clientAddress({ trustedProxies })(request({ peerAddress: '10.0.0.1', headers: { 'x-forwarded-for': long } })),
      '10.0.0.1',
      'a bounded walk',
    )
  })
})
