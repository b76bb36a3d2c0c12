import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { WatchList } from '../../../src/runtime/notices.js'

describe('WatchList', () => {
  test('calls the listeners of one key, or of all, in a later microtask', async () => {
    const list = new WatchList()
    const told: string[] = []
    list.add('a', () => { told.push('a') })
    list.add('b', () => { told.push('b') })
    list.notify('a')
    assert.deepEqual(told, [])
    await turn()
    assert.deepEqual(told, ['a'])
    list.notifyAll()
    await turn()
    assert.deepEqual(told, ['a', 'a', 'b'])
  })

  test('treats one listener twice as two watches, which end separately', async () => {
    const list = new WatchList()
    let told = 0
    const listener = (): void => { told++ }
    const [first, second] = [list.add('a', listener), list.add('a', listener)]
    first()
    first()
    assert.deepEqual([list.size, list.has('a')], [1, true])
    list.notify('a')
    await turn()
    assert.equal(told, 1)
    list.notify('a')
    second()
    await turn()
    assert.equal(told, 1, 'a watch that has ended between notice and call is not told')
    assert.deepEqual([list.size, list.has('a'), [...list.keys()]], [0, false, []])
  })

  test('notifies other listeners if one throws', async () => {
    const list = new WatchList()
    let told = 0
    list.add('a', () => { throw new Error('own') })
    list.add('a', () => { told++ })
    list.notify('a')
    await turn()
    assert.equal(told, 1)
    list.notify('a')
    list.clear()
    await turn()
    assert.deepEqual([told, list.size], [1, 0])
  })
})
