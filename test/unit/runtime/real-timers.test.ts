import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { settles, within } from '../../../src/runtime/timers.js'

// The timer of `within` keeps no process alive.
function alive(t: TestContext): void {
  const timer = setInterval(() => undefined, 1000)
  t.after(() => { clearInterval(timer) })
}

const silent = new Promise<never>(() => undefined)

describe('within', () => {
  test('settles as the work does', async (t) => {
    const late = (): Error => new Error('late')
    assert.equal(await within(Promise.resolve(1), 1000, late), 1)
    await assert.rejects(within(Promise.reject(new Error('own')), 1000, late), /own/)
    alive(t)
  })

  test('rejects once the time is over, even under fake timers', async (t) => {
    alive(t)
    t.mock.timers.enable()
    const waiting = within(silent, 5, () => new Error('late'))
    t.mock.timers.reset()
    await assert.rejects(waiting, /late/)
  })

  test('creates no error if the work was done', async () => {
    let asked = 0
    await within(Promise.resolve(), 1, () => {
      asked++
      return new Error('late')
    })
    assert.equal(await settles(silent, 20), false)
    assert.equal(asked, 0)
  })
})

describe('settles', () => {
  test('is true for work that ends, and false for work that is late', async () => {
    assert.equal(await settles(Promise.resolve(), 1000), true)
    assert.equal(await settles(Promise.reject(new Error('own')), 1000), true)
    assert.equal(await settles(silent, 5), false)
  })
})
