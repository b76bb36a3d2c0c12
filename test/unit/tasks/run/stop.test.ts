import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { after, describe, test } from 'node:test'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { Stop, TIMED_OUT } from '../../../../src/tasks/run/run.js'
import { bench, ended } from '../../kit/tasks.js'
import { deferred, keepAlive, within } from '../../../kit/wait.js'

// Timers of the library let a process end.
keepAlive({ after })

/** Resolves to the value of a run, or to the error. */
const outcome = (stop: Stop, run: Promise<unknown>, timeoutMs: number): Promise<unknown> => (
  new Promise((resolve) => {
    stop.begin(timeoutMs, resolve)
    run.then(resolve, resolve)
  })
)

describe('Stop', () => {
  test('stops a run that ignores its signal, at its time limit and at an abort of its source', async (t) => {
    const deaf = defineTask({ name: 'deaf', timeoutMs: 50, run: () => new Promise(() => undefined) })
    const { tasks, close } = bench({ definitions: [deaf] })
    t.after(close)
    assert.equal((await ended(tasks, (await tasks.submit(deaf, 1)).taskId)).error?.code, 'task_timeout')

    const source = new AbortController()
    const stop = new Stop(source)
    const over = outcome(stop, new Promise(() => undefined), 60_000)
    source.abort('gone')
    assert.match(String(await within(over)), /did not end/)
    assert.deepEqual([stop.aborted, stop.reason], [true, 'gone'])
    stop.end()
  })

  test('obeys a source that offers onAbort without reading its signal', async () => {
    let abort: ((reason: unknown) => void) | undefined
    const source = {
      get signal(): AbortSignal {
        return assert.fail('the signal was read')
      },
      onAbort: (listener: typeof abort) => {
        abort = listener
      },
    }
    const stop = new Stop(source)
    abort?.('gone')
    assert.deepEqual([stop.aborted, stop.reason, stop.signal.reason], [true, 'gone', 'gone'])
  })

  test('aborts the run when its time is over, and stops waiting a second later', async () => {
    const stop = new Stop(new AbortController())
    const at = performance.now()
    const aborted = new Promise<number>((resolve) => {
      stop.signal.addEventListener('abort', () => {
        resolve(performance.now() - at)
      })
    })
    const over = outcome(stop, new Promise(() => undefined), 60)
    assert.ok(await within(aborted) > 55)
    assert.equal(stop.reason, TIMED_OUT)
    assert.match(String(await within(over)), /did not end/)
    stop.end()
  })

  test('waits for the value of a run, even if it comes after the abort', async () => {
    const stop = new Stop(new AbortController())
    const value = deferred<string>()
    const over = outcome(stop, value.promise, 60_000)
    stop.abort('gone')
    value.resolve('late')
    assert.equal(await over, 'late')
    stop.end()
  })

  test('keeps the first reason, and has no reason after the end', () => {
    const stop = new Stop(new AbortController())
    stop.abort('first')
    stop.abort('second')
    assert.deepEqual([stop.reason, stop.signal.reason], ['first', 'first'])
    stop.end()
    const ended = new Stop(new AbortController())
    ended.end()
    ended.abort('late')
    assert.equal(ended.aborted, false)
  })

  test('leaves no listener on its source', () => {
    const source = new AbortController()
    for (let n = 0; n < 10; n++) {
      const stop = new Stop(source)
      assert.equal(stop.signal.aborted, false)
      assert.equal(getEventListeners(source.signal, 'abort').length, 1)
      stop.end()
    }
    assert.equal(getEventListeners(source.signal, 'abort').length, 0)
  })
})
