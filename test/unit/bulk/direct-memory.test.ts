import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { inTurn, withParsed } from '../../../src/bulk/read-direct.js'
import type { HttpRequest } from '../../../src/http/exchange.js'
import { heapShare } from '../../../src/runtime/shared-limit.js'
import { fakeRequest } from '../kit/request.js'

const OVERLOADED = { code: 'overloaded', status: 503 }
const TOO_MANY = { code: 'too_many_requests', status: 429, headers: { 'retry-after': '1' } }

const by = (subject: string, signal = new AbortController().signal): HttpRequest<unknown> =>
  ({ ...fakeRequest(), signal, context: { principal: { subject } } })

describe('the memory of parsed JSON', () => {
  /** Runs work on so many bytes until `end` is called. */
  function hold(subject: string, bytes: number) {
    let end = (): void => undefined
    const running = withParsed(by(subject), bytes, () => new Promise<void>((resolve) => { end = resolve }))
    return async () => { end(); await running }
  }
  const run = (subject: string, bytes: number) => withParsed(by(subject), bytes, () => Promise.resolve('done'))
  /** Bytes of JSON whose estimate is a quarter of the heap for JSON. */
  const QUARTER = Math.floor(heapShare(8 / 3, Infinity) / 4 / 24)

  test('is limited, but a single request always runs', async () => {
    const end = hold('one', 2 ** 40)
    await assert.rejects(run('other', 20_000), OVERLOADED)
    await end()
    assert.equal(await run('other', 20_000), 'done')
  })

  test('has a share of a quarter for one caller, and other callers keep their shares', async () => {
    const end = hold('one', QUARTER)
    await assert.rejects(run('one', 20_000), TOO_MANY)
    assert.equal(await run('other', QUARTER), 'done')
    await end()
    assert.equal(await run('one', 20_000), 'done')
  })

  test('is never short for small bodies', async () => {
    const end = hold('one', 2 ** 40)
    assert.deepEqual(await Promise.all([run('one', 16_384), run('other', 16_384)]), ['done', 'done'])
    await end()
  })
})

describe('work in turns', () => {
  test('is skipped if its client has disconnected', async () => {
    const client = new AbortController()
    const done: string[] = []
    const turn = (name: string, signal?: AbortSignal) => inTurn(by(name, signal), async () => { done.push(name) })
    const first = inTurn(by('one'), async () => { client.abort() })
    const second = turn('second', client.signal)
    const third = turn('third')
    await first
    assert.equal(await second, undefined)
    await third
    assert.deepEqual(done, ['third'])
  })

  test('runs one at a time, and alternates between its callers', async () => {
    const done: string[] = []
    const turn = (caller: string) => inTurn(by(caller), async () => {
      done.push(`${caller} begins`)
      await new Promise(setImmediate)
      done.push(`${caller} ends`)
    })
    await Promise.all([turn('greedy'), turn('greedy'), turn('greedy'), turn('other')])
    const order = done.filter((_, at) => at % 2 === 0).map((text) => text.split(' ')[0])
    assert.deepEqual(order, ['greedy', 'greedy', 'other', 'greedy'])
    assert.ok(done.every((text, at) => text.endsWith(at % 2 === 0 ? 'begins' : 'ends')))
  })
})
