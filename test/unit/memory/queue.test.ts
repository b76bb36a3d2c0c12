import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { HandBackError, type Job } from '../../../src/queues/queue.js'
import { MemoryQueue } from '../../../adapters/memory/index.js'

const job = (id: string | number, input: unknown = null): Job => ({ id: `${id}`, taskId: `${id}`, name: 'test', input })
const turn = () => new Promise(setImmediate)
const never = new Promise<never>(() => undefined)
const onDead = () => undefined
const waitingIn = (queue: MemoryQueue) => [queue.usage().running, queue.usage().waiting]

describe('MemoryQueue', () => {
  test('refuses options that make no sense, and a second process()', () => {
    for (const maxQueued of [-1, 0.5, NaN, Infinity]) assert.throws(() => new MemoryQueue({ maxQueued }), TypeError)
    for (const maxQueuedBytes of [-1, 0.5, NaN, Infinity]) {
      assert.throws(() => new MemoryQueue({ maxQueuedBytes }), /maxQueuedBytes/)
    }
    const queue = new MemoryQueue()
    for (const concurrency of [0, -1, 1.5, NaN, Infinity]) {
      assert.throws(() => queue.process(async () => undefined, { concurrency, onDead }), TypeError)
    }
    queue.process(async () => undefined, { concurrency: 1, onDead })
    assert.throws(() => queue.process(async () => undefined, { concurrency: 1, onDead }), /already/)
  })

  test('runs in the order of arrival, also after jobs were removed', async () => {
    const queue = new MemoryQueue()
    const ran: string[] = []
    for (let i = 0; i < 8; i++) await queue.enqueue(job(i))
    for (const id of ['0', '3', '7']) await queue.remove(id)
    await queue.enqueue(job(8))
    queue.process(async ({ id }) => { ran.push(id) }, { concurrency: 1, onDead })
    await queue.close()
    assert.deepEqual(ran, ['1', '2', '4', '5', '6', '8'])
  })

  test('idle() resolves for each caller when no job waits or runs, retries and delays included', async () => {
    const queue = new MemoryQueue()
    await queue.idle()
    const ran: string[] = []
    queue.process(async ({ id }) => {
      ran.push(id)
      if (ran.length === 1) throw new Error('once more')
    }, { concurrency: 1, onDead })
    await queue.enqueue(job('tried twice'), { attempts: 2, backoff: { type: 'fixed', delayMs: 1 } })
    await queue.enqueue(job('later'), { delayMs: 5 })
    await Promise.all([queue.idle(), queue.idle()])
    assert.deepEqual(ran.toSorted(), ['later', 'tried twice', 'tried twice'])
    assert.deepEqual(waitingIn(queue), [0, 0])
    await queue.close()
  })

  test('starts a job after the caller of enqueue has continued', async () => {
    const queue = new MemoryQueue()
    const order: string[] = []
    queue.process(async () => { order.push('run') }, { concurrency: 1, onDead })
    await queue.enqueue(job(1))
    order.push('answer')
    await Promise.resolve()
    await turn()
    assert.deepEqual(order, ['answer', 'run'])
  })

  test('holds maxQueued jobs beside those that may run, whatever they wait for', async () => {
    const queue = new MemoryQueue({ maxQueued: 2 })
    queue.process(() => never, { concurrency: 3, onDead })
    for (let i = 0; i < 4; i++) assert.equal(await queue.enqueue(job(i)), 'accepted')
    assert.equal(await queue.enqueue(job('delayed'), { delayMs: 1e6 }), 'accepted')
    assert.equal(await queue.enqueue(job('more')), 'full')
    assert.equal(await queue.enqueue(job('more'), { delayMs: 1 }), 'full')
    await turn()
    assert.deepEqual(waitingIn(queue), [3, 2])
    await queue.remove('delayed')
    assert.equal(await queue.enqueue(job('more')), 'accepted')
    await queue.close({ drainMs: 0 })
    assert.deepEqual(waitingIn(queue), [0, 0])
  })

  test('a delay longer than a timer takes does not end at once', async () => {
    const queue = new MemoryQueue()
    let runs = 0
    queue.process(async () => { runs++ }, { concurrency: 1, onDead })
    await queue.enqueue(job(1), { delayMs: 2 ** 31 + 5 })
    await new Promise((resolve) => setTimeout(resolve, 20))
    assert.equal(runs, 0)
    assert.equal(await queue.remove('1'), true)
  })

  test('a job of one attempt that starts at once is passed on as it is; others as copies', async () => {
    const queue = new MemoryQueue()
    const seen = new Map<string, unknown>()
    queue.process(async ({ id, input }) => { seen.set(id, input) }, { concurrency: 2, onDead })
    const input = { deep: [1] }
    await queue.enqueue(job('at once', input))
    await queue.enqueue(job('again', input), { attempts: 2 })
    await queue.enqueue(job('waits', input))
    await queue.enqueue(job('delayed', input), { delayMs: 1 })
    await queue.close()
    assert.equal(seen.get('at once'), input)
    for (const id of ['again', 'waits', 'delayed']) {
      assert.notEqual(seen.get(id), input, id)
      assert.deepEqual(seen.get(id), input)
    }
  })

  test('jobs that wait take maxQueuedBytes at most, whatever they wait for', async () => {
    const queue = new MemoryQueue({ maxQueuedBytes: 10_000 })
    queue.process(() => never, { concurrency: 1, onDead })
    const text = 'x'.repeat(4000)
    assert.equal(await queue.enqueue(job('runs', text)), 'accepted')
    await turn()
    assert.equal(queue.usage().bytes, 0, 'a small one that starts at once is no text')
    assert.equal(await queue.enqueue(job(1, text)), 'accepted')
    assert.equal(await queue.enqueue(job('later', text), { delayMs: 1e6 }), 'accepted')
    const { bytes } = queue.usage()
    assert.ok(bytes > 8000 && bytes < 8300, `${bytes}`)
    assert.equal(await queue.enqueue(job(2, text)), 'full')
    assert.equal(await queue.enqueue(job('later 2', text), { delayMs: 1e6 }), 'full')
    assert.equal(await queue.enqueue(job('small')), 'accepted')
    assert.equal(await queue.enqueue(job(1, text)), 'accepted', 'an id that waits is taken, however full the queue is')
    await queue.remove('later')
    assert.equal(await queue.enqueue(job(2, text)), 'accepted')
    await queue.close({ drainMs: 0 })
    assert.equal(queue.usage().bytes, 0)
  })

  test('a job with a large input is text until it ends, also if it starts at once, and is parsed when its input is read', async () => {
    const queue = new MemoryQueue({ maxQueuedBytes: 10_000 })
    let read: () => unknown = () => undefined
    queue.process((given) => {
      read = () => given.input
      return never
    }, { concurrency: 3, onDead })
    const input = Array.from({ length: 2000 }, () => ({}))
    assert.equal(await queue.enqueue(job(1, input)), 'accepted')
    await turn()
    const { bytes } = queue.usage()
    assert.ok(bytes > 6000 && bytes < 6100, `${bytes}`)
    assert.deepEqual(read(), input)
    assert.equal(read(), read(), 'once for each attempt')
    assert.equal(await queue.enqueue(job(2, input)), 'full')
    assert.equal(await queue.enqueue(job(3)), 'accepted')
    await queue.close({ drainMs: 0 })
    assert.equal(queue.usage().bytes, 0)
  })

  test('a job that is handed back waits as text', async () => {
    const queue = new MemoryQueue()
    let runs = 0
    queue.process(async () => { if (++runs === 1) throw new HandBackError(60_000) }, { concurrency: 1, onDead })
    await queue.enqueue(job(1, 'x'.repeat(4000)))
    while (queue.usage().bytes === 0) await turn()
    assert.deepEqual([...waitingIn(queue), runs], [0, 1, 1])
    await queue.remove('1')
    assert.equal(queue.usage().bytes, 0)
  })

  test('two bytes count for each unit of a text beyond ASCII, as V8 keeps it', async () => {
    const queue = new MemoryQueue()
    await queue.enqueue(job(1, 'x'.repeat(1000)))
    const ascii = queue.usage().bytes
    await queue.enqueue(job(2, `${'x'.repeat(999)}€`))
    assert.equal(queue.usage().bytes - ascii, 2 * ascii)
  })

  test('one job larger than maxQueuedBytes is accepted while no other waits, and one that starts at once always', async () => {
    const queue = new MemoryQueue({ maxQueuedBytes: 100 })
    queue.process(() => never, { concurrency: 2, onDead })
    const text = 'x'.repeat(4000)
    await queue.enqueue(job('later', text), { delayMs: 1e6 })
    assert.equal(await queue.enqueue(job('also later', text), { delayMs: 1e6 }), 'full')
    for (const id of [1, 2]) assert.equal(await queue.enqueue(job(id, text)), 'accepted')
    assert.equal(await queue.enqueue(job(3, text)), 'full')
    await queue.close({ drainMs: 0 })
  })

  test('a job that may be tried again counts until it ends, and is never refused its retry', async () => {
    const queue = new MemoryQueue({ maxQueuedBytes: 5000 })
    const text = 'x'.repeat(4000)
    const ran: string[] = []
    queue.process(async ({ id, input }, { attempt }) => {
      assert.equal(input, text)
      ran.push(`${id}.${attempt}`)
      if (attempt === 1) throw new Error('fails, on purpose')
    }, { concurrency: 1, onDead })
    assert.equal(await queue.enqueue(job('a', text), { attempts: 2, backoff: { type: 'fixed', delayMs: 5 } }), 'accepted')
    while (ran.length < 1) await turn()
    assert.equal(await queue.enqueue(job('b', text), { attempts: 2 }), 'full')
    assert.equal(await queue.enqueue(job('c', text), { delayMs: 1 }), 'full')
    while (queue.usage().bytes > 0) await turn()
    assert.deepEqual(ran, ['a.1', 'a.2'])
    assert.equal(await queue.enqueue(job('b', text), { attempts: 2 }), 'accepted')
    await queue.close()
    assert.deepEqual(ran, ['a.1', 'a.2', 'b.1', 'b.2'])
  })

  test('a job that is not JSON and may be retried is refused, and takes no slot', async () => {
    const queue = new MemoryQueue({ maxQueued: 1 })
    await assert.rejects(async () => queue.enqueue(job(1, 1n), { attempts: 2 }), TypeError)
    assert.equal(await queue.enqueue(job(1, 'fine'), { attempts: 2 }), 'accepted')
  })

  test('a run that never settles holds one slot only', async () => {
    const queue = new MemoryQueue()
    const ran: string[] = []
    queue.process(({ id }) => {
      ran.push(id)
      return id === 'stuck' ? never : Promise.resolve()
    }, { concurrency: 2, onDead })
    await queue.enqueue(job('stuck'))
    for (let i = 0; i < 5; i++) await queue.enqueue(job(i))
    while (queue.usage().waiting > 0 || ran.length < 6) await turn()
    assert.deepEqual(ran, ['stuck', '0', '1', '2', '3', '4'])
    await queue.close({ drainMs: 0 })
  })

  test('a slow onDead holds the slot of its job', async () => {
    const queue = new MemoryQueue()
    let reported: () => void = () => undefined
    const ran: string[] = []
    queue.process(async ({ id }) => {
      ran.push(id)
      throw new Error('fails, on purpose')
    }, { concurrency: 1, onDead: () => new Promise((resolve) => { reported = resolve }) })
    await queue.enqueue(job(1))
    await queue.enqueue(job(2))
    for (let i = 0; i < 5; i++) await turn()
    assert.deepEqual(ran, ['1'])
    reported()
    while (ran.length < 2) await turn()
    reported()
    while (queue.usage().running > 0) await turn()
    await queue.close()
  })

  test('close without process() drops waiting jobs at once', async () => {
    const queue = new MemoryQueue()
    await queue.enqueue(job(1))
    await queue.enqueue(job(2), { delayMs: 1e6 })
    const start = performance.now()
    await queue.close({ drainMs: 60_000 })
    assert.ok(performance.now() - start < 5000, 'close() waited')
    assert.deepEqual(waitingIn(queue), [0, 0])
  })

  test('close does not wait for jobs that are delayed beyond its drainMs', async () => {
    const queue = new MemoryQueue()
    const dead: string[] = []
    const ran: string[] = []
    queue.process(async ({ id }) => { ran.push(id) }, { concurrency: 1, onDead: ({ id }, reason) => { dead.push(`${id} ${reason}`) } })
    await queue.enqueue(job('in time'), { delayMs: 20 })
    await queue.enqueue(job('too late'), { delayMs: 1e9 })
    const start = performance.now()
    await queue.close({ drainMs: 60_000 })
    assert.ok(performance.now() - start < 30_000, 'close() waited')
    assert.deepEqual([ran, dead], [['in time'], ['too late closed']])
  })

  test('close again gives the same outcome, whatever its drainMs', async () => {
    const queue = new MemoryQueue()
    queue.process(async () => undefined, { concurrency: 1, onDead })
    const first = queue.close({ drainMs: 1 })
    assert.equal(queue.close({ drainMs: 1e9 }), first)
    await first
  })

  test('fake timers of a test block nothing, and leave nothing behind', async (t) => {
    const fakes: [string, () => () => void][] = [
      ['of node:test', () => { t.mock.timers.enable(); return () => { t.mock.timers.reset() } }],
      ['put in place of the global ones', () => {
        const { setImmediate: real } = globalThis
        globalThis.setImmediate = (() => ({})) as unknown as typeof setImmediate
        return () => { globalThis.setImmediate = real }
      }],
    ]
    for (const [title, fake] of fakes) {
      const queue = new MemoryQueue()
      const ran: string[] = []
      queue.process(async ({ id }) => { ran.push(id) }, { concurrency: 1, onDead })
      const real = fake()
      await queue.enqueue(job(1))
      real()
      for (let n = 0; n < 5; n++) await turn()
      assert.deepEqual(ran, ['1'], title)
      await queue.enqueue(job(2))
      for (let n = 0; n < 5; n++) await turn()
      assert.deepEqual(ran, ['1', '2'], title)
      await queue.close()
    }
  })

  test('a waiting queue keeps no process alive, a draining one does', async () => {
    const start = (rest: string) => {
      const code = `import { MemoryQueue } from ${JSON.stringify(new URL('../../../adapters/memory/index.ts', import.meta.url).href)}
        const queue = new MemoryQueue()
        const aborted = (signal) => new Promise((resolve) => signal.addEventListener('abort', resolve))
        queue.process((_job, { signal }) => aborted(signal), { concurrency: 1, onDead: console.log })
        ${rest}`
      return spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', code], { stdio: ['ignore', 'pipe', 'inherit'] })
    }
    const idle = start("await queue.enqueue({ id: '1', taskId: '1', name: 'n', input: 0 }, { delayMs: 60_000 })")
    const draining = start("await queue.enqueue({ id: '1', taskId: '1', name: 'n', input: 0 }); await queue.close({ drainMs: 50 }); console.log('closed')")
    let said = ''
    draining.stdout.on('data', (text: Buffer) => { said += text.toString() })
    const exits = await Promise.all([once(idle, 'exit'), once(draining, 'close')])
    assert.deepEqual(exits, [[0, null], [0, null]])
    assert.equal(said, 'closed\n')
  })
})
