import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SharedLimit } from '../../../src/runtime/shared-limit.js'

/** Work whose client stays. */
const stays = () => ({ signal: new AbortController().signal })

/** Lets work wait for a share, and writes down when it gets it. */
function line(limit: SharedLimit) {
  const entered: string[] = []
  const wait = (caller: string, amount: number, name = caller) => {
    const share = limit.open(caller)
    const acquired = share.acquire(amount, stays()).then(() => { entered.push(name) })
    return { share, acquired }
  }
  return { entered, wait }
}

const settled = () => new Promise(setImmediate)

describe('a limit shared by all callers', () => {
  test('admits requests that fit, in their order, and admits more than the whole limit for a single request', async () => {
    const limit = new SharedLimit(10, Infinity)
    const all = limit.open('one')
    assert.equal(all.tryAcquire(50), undefined)
    assert.equal(limit.open('other').tryAcquire(1), 'overloaded')
    const { entered, wait } = line(limit)
    const large = wait('one', 8, 'large')
    const small = wait('one', 2, 'small')
    all.release()
    await Promise.all([large.acquired, small.acquired])
    assert.deepEqual(entered, ['large', 'small'])
    assert.equal(limit.open('one').tryAcquire(1), 'overloaded')
    large.share.release()
    assert.equal(limit.open('one').tryAcquire(8), undefined)
  })

  test('lets no request pass a waiting request, and admits the next if the waiting request gives up', async () => {
    const limit = new SharedLimit(10, Infinity)
    assert.equal(limit.open('one').tryAcquire(5), undefined)
    const stop = new AbortController()
    const first = limit.open('one').acquire(9, stop)
    const second = limit.open('other').acquire(5, stays())
    assert.equal(limit.open('third').tryAcquire(1), 'overloaded')
    stop.abort()
    assert.equal(await first, false)
    assert.equal(await second, true)
    assert.equal(await limit.open('one').acquire(1, stop), false)
  })

  test('reads no signal if no request has to wait, because a signal costs time', async () => {
    const work = { get signal(): AbortSignal { throw new Error('is not needed') } }
    assert.equal(await new SharedLimit(10).open('one').acquire(5, work), true)
  })
})

describe('one caller of a shared limit', () => {
  test('gets a quarter, or more if it has no other request, and then waits without delaying other callers', async () => {
    const limit = new SharedLimit(100)
    const { entered, wait } = line(limit)
    const first = wait('greedy', 30, 'first')
    for (let n = 0; n < 50; n++) wait('greedy', 10, `greedy ${n}`)
    await settled()
    assert.deepEqual(entered, ['first'])
    await wait('other', 30).acquired
    assert.equal(limit.open('third').tryAcquire(25), undefined)
    first.share.release()
    await settled()
    assert.deepEqual(entered, ['first', 'other', 'greedy 0', 'greedy 1'])
  })

  test('takes turns with other waiting callers, however many of its requests wait', async () => {
    const limit = new SharedLimit(1)
    const { entered, wait } = line(limit)
    const shares = [
      wait('greedy', 1, 'a'),
      wait('greedy', 1, 'b'),
      wait('greedy', 1, 'c'),
      wait('other', 1, 'x'),
      wait('other', 1, 'y'),
    ]
    for (let done = 0; done < shares.length; done++) {
      await settled()
      assert.equal(entered.length, done + 1)
      shares.find(({ share }) => share.amount > 0)?.share.release()
    }
    assert.deepEqual(entered, ['a', 'b', 'x', 'c', 'y'])
  })

  test('gets the reason why it gets no place', () => {
    const limit = new SharedLimit(100)
    const one = limit.open('one')
    one.add(25)
    assert.equal(one.refusal(), undefined)
    assert.equal(limit.open('one').refusal(1), 'too_many_requests')
    limit.open('other').add(75)
    assert.equal(limit.open('third').refusal(1), 'overloaded')
    one.release()
    one.release()
    assert.equal(limit.open('third').refusal(25), undefined)
  })
})
