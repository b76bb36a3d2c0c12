import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Notices } from '../../../src/runtime/notices.js'

describe('Notices', () => {
  test('sends the first notice at once and the following notices together, each once', async () => {
    const sent: (readonly string[])[] = []
    const notices = new Notices(async (names) => { sent.push(names) })
    for (const name of ['a', 'b', 'c', 'b']) notices.add(name)
    assert.deepEqual(sent, [['a']])
    await notices.flush()
    assert.deepEqual(sent, [['a'], ['b', 'c']])
    notices.add('d')
    assert.deepEqual(sent[2], ['d'])
    await notices.flush()
  })

  test('loses only one message in a failure', async () => {
    const sent: (readonly string[])[] = []
    const notices = new Notices(async (names) => {
      if (names.includes('a')) throw new Error('lost')
      sent.push(names)
    })
    notices.add('a')
    notices.add('b')
    await notices.flush()
    assert.deepEqual(sent, [['b']])
  })

  test('sends at most 500 names in a message, and keeps at most 10,000 waiting names', async () => {
    const sizes: number[] = []
    const notices = new Notices(async ({ length }) => { sizes.push(length) })
    for (let n = 0; n < 11_000; n++) notices.add(String(n))
    await notices.flush()
    assert.equal(Math.max(...sizes), 500)
    assert.equal(sizes.reduce((sum, size) => sum + size, 0), 10_001)
  })
})
