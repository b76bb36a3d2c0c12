import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { after, describe, test } from 'node:test'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { Stop, TIMED_OUT } from '../../../src/tasks/run/stop.js'
import { bench, deferred, ended, within } from './kit.js'

// Timers of the library let a process end.
const hold = setInterval(() => undefined, 60_000)
after(() => { clearInterval(hold) })

describe('Stop', () => {
  test('a run that never looks at its signal is stopped by its time and by its source all the same', async (t) => {
    const deaf = defineTask({ name: 'deaf', timeoutMs: 50, run: () => new Promise(() => undefined) })
    const { tasks, close } = bench({ definitions: [deaf] })
    t.after(close)
    assert.equal((await ended(tasks, (await tasks.submit(deaf, 1)).taskId)).error?.code, 'task_timeout')

    const source = new AbortController()
    const stop = new Stop(source)
    const over = deferred()
    stop.begin(60_000, 1, () => { over.resolve() })
    source.abort('gone')
    await within(over.promise, 1000)
    assert.deepEqual([stop.aborted, stop.reason], [true, 'gone'])
    stop.end()
  })

  test('the time counts from the beginning, though it is looked at later', async () => {
    const stop = new Stop(new AbortController())
    const over = deferred()
    const at = performance.now()
    stop.begin(60, 1, () => { over.resolve() })
    await within(over.promise, 1000)
    const took = performance.now() - at
    assert.ok(took > 55 && took < 500, String(took))
    assert.equal(stop.reason, TIMED_OUT)
    stop.end()
  })

  test('the first reason stands, and after the end there is none', () => {
    const stop = new Stop(new AbortController())
    stop.begin(1000, 1, () => undefined)
    stop.abort('first')
    stop.abort('second')
    assert.deepEqual([stop.reason, stop.signal.reason], ['first', 'first'])
    stop.end()
    const ended = new Stop(new AbortController())
    ended.begin(1000, 1, () => assert.fail())
    ended.end()
    ended.abort('late')
    assert.equal(ended.aborted, false)
  })

  test('leaves no listener on its source', () => {
    const source = new AbortController()
    for (let n = 0; n < 10; n++) {
      const stop = new Stop(source)
      stop.watch()
      stop.begin(1000, 1, () => undefined)
      assert.equal(stop.signal.aborted, false)
      assert.equal(getEventListeners(source.signal, 'abort').length, 1)
      stop.end()
    }
    assert.equal(getEventListeners(source.signal, 'abort').length, 0)
  })
})
