import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { callbacks, httpSender, type CallbackOptions } from '../../../src/callbacks/index.js'
import { memory } from '../../../adapters/memory/index.js'
import { MemoryTaskEngine } from '../../../adapters/memory/engine.js'
import type { WorkHandlers, WorkOptions } from '../../../src/engine/engine.js'
import { createTasks, coreOf } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import type { Callbacks } from '../../../src/tasks/core/task-core.js'
import { eventually, keepAlive } from '../../kit/wait.js'

// Timers of the library let a process end.
keepAlive({ after })

const work = defineTask({ name: 'work', run: () => 1 })
const secrets = () => ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw']
const sender = { check: () => undefined, send: async () => ({ status: 200 }) }

/** An engine that notes what it was asked for. */
class Noting extends MemoryTaskEngine {
  readonly worked: WorkOptions[] = []
  override work(options: WorkOptions, handlers: WorkHandlers): void {
    this.worked.push(options)
    super.work(options, handlers)
  }
}

const make = (made: unknown, engine = new MemoryTaskEngine(), worker = true) =>
  createTasks({
    store: memory().store,
    engine,
    definitions: [work],
    worker,
    concurrency: 10,
    callbacks: made as Callbacks,
  })

describe('callbacks()', () => {
  test('rejects each invalid option, and names it', () => {
    const wrong: [options: object, says: RegExp][] = [
      [{}, /the option secrets is missing; it must be a function/],
      [{ sender }, /secrets is missing/],
      [{ secrets: 'whsec_' }, /secrets must be a function/],
      [{ secrets, sender: null }, /sender must be a CallbackSender, such as httpSender\(\)/],
      [{ secrets, sender: {} }, /sender must be/],
      [{ secrets, sender: { send: sender.send } }, /sender must be/],
      [{ secrets, sender: { check: sender.check } }, /sender must be/],
      ...['attempts', 'maxInFlight', 'maxPerHost', 'maxPerOwner'].flatMap((name) =>
        [0, 1.5, -1, '2', null, NaN].map((value): [object, RegExp] => [
          { secrets, [name]: value },
          new RegExp(`${name} must be a whole number from 1`),
        ]),
      ),
      ...['queue', 'maxWaiting', 'maxWaitingPerOwner'].map((name): [object, RegExp] => [
        { secrets, [name]: 5 },
        new RegExp(`there is no option "${name}"`),
      ]),
      [{ secrets, backoff: { type: 'x', delayMs: 1 } }, /callbacks: backoff: type must be/],
      [{ secrets, backoff: { type: 'fixed', delayMs: -1 } }, /callbacks: backoff: delayMs must be/],
    ]
    for (const [options, says] of wrong) {
      assert.throws(
        () => callbacks(options as CallbackOptions),
        (error: unknown) => error instanceof TypeError && says.test(error.message),
        JSON.stringify(options),
      )
    }
  })

  test('uses the default of each option that is undefined', () => {
    make(
      callbacks({
        secrets,
        sender,
        ...{ attempts: undefined, backoff: undefined, maxInFlight: undefined, maxPerHost: undefined },
      } as never),
    )
  })

  test('sends over HTTP to public addresses, unless it has another sender', async () => {
    const tasks = make(callbacks({ secrets }))
    assert.equal(await coreOf(tasks).checkCallback('https://example.com/hook', 'ann'), 'https://example.com/hook')
    const forbidden = (): Promise<Error> => (
      coreOf(tasks).checkCallback('http://127.0.0.1/', 'ann').then(() => assert.fail(), (error: Error) => error)
    )
    const [first, second] = [await forbidden(), await forbidden()]
    assert.equal(first.message, 'The callback URL must be of a public host.')
    assert.match(String(first.cause), /httpSender\(\{ allow: \["127\.0\.0\.1"\] \}\)/, 'no advice for the operator')
    assert.equal(second.cause, undefined, 'clients repeat the advice')
    const open = make(callbacks({ secrets, sender: httpSender({ allow: ['127.0.0.1'] }) }))
    assert.equal(await coreOf(open).checkCallback('http://127.0.0.1/', 'ann'), 'http://127.0.0.1/')
  })
})

describe('httpSender()', () => {
  test('rejects invalid entries of allow, and invalid times', () => {
    for (const allow of ['10.0.0.0/33', '1.2.3', 'a b', '999.1.1.1', '*'])
      assert.throws(() => httpSender({ allow: [allow] }), TypeError, allow)
    for (const timeoutMs of [0, -1, 600_001, NaN])
      assert.throws(() => httpSender({ timeoutMs }), TypeError, String(timeoutMs))
    assert.throws(() => httpSender({ maxResponseBytes: -1 }), TypeError)
  })
})

describe('createTasks', () => {
  test('says what to write if it gets options instead of callbacks()', () => {
    const write =
      /^TypeError: createTasks: callbacks must be what callbacks\(\) of longhaul\/callbacks returns, not .+\. Write createTasks\(\{ callbacks: callbacks\(\{ secrets, … \}\), … \}\)/
    for (const old of [{ sender, secrets }, { secrets }, callbacks, true]) assert.throws(() => make(old), write)
  })

  test('handles twice maxInFlight callbacks at the same time, and none in a process that runs no tasks', () => {
    for (const [options, expected] of [[{}, 40], [{ maxInFlight: 3 }, 6]] as const) {
      const engine = new Noting()
      make(callbacks({ secrets, ...options }), engine)
      assert.deepEqual(engine.worked.map((worked) => worked.callbacks), [expected])
    }
    const idle = new Noting()
    make(callbacks({ secrets }), idle, false)
    assert.deepEqual(idle.worked, [])
  })

  test('accepts one callbacks() for several createTasks, each with its engine', async (t) => {
    const made = callbacks({ secrets, sender })
    for (let count = 0; count < 2; count++) {
      const tasks = make(made)
      t.after(() => tasks.close({ drainMs: 0 }))
      const { taskId: id } = await tasks.submit(work, 1, { callbackUrl: 'https://example.com/' })
      await eventually(async () => (await tasks.get(id))?.callback?.state === 'delivered')
    }
  })
})
