// What the suite of all engines cannot see of the engine in memory: its bounds, what it evicts, and
// what it does to the process.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { MemoryTaskEngine, type MemoryTaskEngineOptions } from '../../../adapters/memory/engine.js'
import { Places, type TaskRun, type WorkHandlers } from '../../../src/engine/engine.js'
import type { Created, NewTask, StoredTask, TaskChange } from '../../../src/engine/task.js'
import { Json } from '../../../src/runtime/json.js'
import { testClock } from '../../../src/testing/index.js'
import { deferred, eventually, within } from '../../kit/wait.js'

const never = new Promise<never>(() => undefined)
const turn = () => new Promise(setImmediate)

function taskOf(id: string, more: Partial<NewTask> = {}): NewTask {
  return {
    id,
    birth: `${id}-birth`,
    name: 'work',
    pool: 'default',
    priority: 0,
    input: Json.of({}),
    details: {},
    keepMs: 60_000,
    ...more,
  }
}

function work(
  engine: MemoryTaskEngine,
  run: WorkHandlers['run'],
  { concurrency = 1, ...handlers }: Partial<WorkHandlers> & { readonly concurrency?: number } = {},
): void {
  engine.work(
    { places: new Places(new Map([['default', concurrency]])), callbacks: 1 },
    {
      run,
      callback: async () => undefined,
      remove: async () => true,
      abandon: () => undefined,
      ...handlers,
    },
  )
}

/** Handlers that end each run with a change. */
const ending =
  (engine: MemoryTaskEngine, ran: string[] = [], change: TaskChange = { status: 'completed' }) =>
    async ({ task }: TaskRun) => {
      ran.push(task.id)
      await engine.change(task, { lease: String(task.run) }, change)
    }

const outcomeOf = (engine: MemoryTaskEngine, id: string, more?: Partial<NewTask>) =>
  (engine.create(taskOf(id, more)) as Created).outcome

/** Creates a task and ends it at once. */
function createFinal(
  engine: MemoryTaskEngine,
  id: string,
  { result = '1', ...more }: Partial<NewTask> & { readonly result?: string } = {},
): void {
  const created = engine.create(taskOf(id, more)) as Created
  assert.equal(created.outcome, 'created')
  const { task } = created as { readonly task: StoredTask }
  void engine.change(task, { version: task.version }, { status: 'failed', result })
}

const idsOf = async (engine: MemoryTaskEngine) =>
  (await engine.list({ of: 'all', order: 'oldest', limit: 1000 })).map(({ id }) => id)

describe('bounds of MemoryTaskEngine', () => {
  test('reject invalid options, and a second call of work()', () => {
    for (const name of [
      'maxUnfinished', 'maxTasks', 'maxBytes', 'maxEntriesPerOwner', 'maxBytesPerOwner',
      'maxWatches',
    ]) {
      for (const value of [0, -1, 1.5, Number.NaN, Infinity, '5']) {
        assert.throws(() => new MemoryTaskEngine({ [name]: value }), { name: 'TypeError', message: new RegExp(name) })
      }
    }
    assert.throws(
      () => new MemoryTaskEngine({ maxQueued: 5 } as MemoryTaskEngineOptions),
      /there is no option "maxQueued"/,
    )
    const engine = new MemoryTaskEngine()
    work(engine, ending(engine))
    assert.throws(() => { work(engine, ending(engine)) }, /work\(\) was called before/)
  })

  test('count waiting, running, delayed and retried tasks in maxUnfinished, and no final ones', async () => {
    const engine = new MemoryTaskEngine({ maxUnfinished: 3 })
    work(engine, () => never)
    createFinal(engine, 'final')
    assert.equal(outcomeOf(engine, 'runs'), 'created')
    assert.equal(outcomeOf(engine, 'waits'), 'created')
    assert.equal(outcomeOf(engine, 'delayed', { start: { delayMs: 1e6 } }), 'created')
    await turn()
    const { running, waiting, delayed: later } = await engine.counts('default')
    assert.deepEqual([running, waiting, later], [1, 1, 1])
    assert.equal(outcomeOf(engine, 'more'), 'full')
    assert.equal(outcomeOf(engine, 'waits'), 'created', 'a repetition of its own call')
    const final = engine.read('final') as StoredTask
    const retry = () =>
      (engine.change(final, { version: final.version }, { status: 'queued' }) as { outcome: string }).outcome
    assert.equal(retry(), 'full')
    const delayed = engine.read('delayed') as StoredTask
    void engine.change(delayed, { version: delayed.version }, { status: 'cancelled' })
    assert.equal(retry(), 'changed')
    assert.equal(outcomeOf(engine, 'more'), 'full')
    assert.equal(engine.usage().unfinished, 3)
    await engine.close({ drainMs: 0 })
  })

  test('limit the bytes of unfinished tasks by maxBytes, whatever they wait for', () => {
    const engine = new MemoryTaskEngine({ maxBytes: 20_000 })
    const input = Json.of('x'.repeat(2000))
    let accepted = 0
    while (
      outcomeOf(engine, `task-${String(accepted)}`, {
        input,
        ...(accepted % 2 === 0 && { start: { delayMs: 1e6 } }),
      }) === 'created'
    )
      accepted++
    assert.ok(accepted >= 3 && accepted <= 10, String(accepted))
    assert.ok(engine.usage().bytes <= 20_000)
    assert.equal(outcomeOf(engine, 'small'), engine.usage().bytes + 1200 < 20_000 ? 'created' : 'full')
  })

  test('count two bytes for each UTF-16 unit of a text', () => {
    const engine = new MemoryTaskEngine()
    void engine.create(taskOf('a', { input: Json.of('\u20ac'.repeat(10_000)) }))
    assert.ok(engine.usage().bytes >= 20_000)
  })

  test('accept one task larger than maxBytes while no other task is unfinished', () => {
    const engine = new MemoryTaskEngine({ maxBytes: 10_000 })
    const input = Json.of('x'.repeat(50_000))
    assert.equal(outcomeOf(engine, 'large', { input }), 'created')
    assert.equal(outcomeOf(engine, 'small'), 'full')
    const large = engine.read('large') as StoredTask
    void engine.change(large, { version: 1 }, { status: 'completed' })
    assert.equal(outcomeOf(engine, 'small'), 'created')
    assert.equal(outcomeOf(engine, 'large-again', { input }), 'full')
  })

  test('let an accepted task grow and run again, and count its bytes until it ends', async () => {
    const engine = new MemoryTaskEngine({ maxBytes: 10_000 })
    let runs = 0
    const gate = deferred()
    work(engine, async ({ task }) => {
      if (++runs === 2) await gate.promise
      const { outcome } = await engine.change(task, { lease: String(task.run) }, { checkpoint: 'x'.repeat(20_000) })
      assert.equal(outcome, 'changed')
      await engine.change(task, { lease: String(task.run) }, { status: runs < 3 ? 'queued' : 'completed' })
    })
    assert.equal(outcomeOf(engine, 'a'), 'created')
    await eventually(() => runs === 2)
    assert.equal(outcomeOf(engine, 'b'), 'full')
    gate.resolve()
    await engine.idle()
    assert.deepEqual([runs, outcomeOf(engine, 'b')], [3, 'created'])
    assert.ok(engine.usage().bytes < 5000)
  })

  test('keep a large input as text until it runs, and parse it when it is read', async () => {
    const engine = new MemoryTaskEngine()
    const value = Array.from({ length: 5000 }, (_, n) => ({ n }))
    const { length } = JSON.stringify(value)
    void engine.create(taskOf('large', { input: Json.of(value) }))
    assert.ok(engine.usage().bytes < 2 * length + 2000, String(engine.usage().bytes))
    value.length = 0
    let seen: unknown
    work(engine, async (run) => {
      seen = run.input.value
      await ending(engine)(run)
    })
    await engine.idle()
    assert.equal((seen as unknown[]).length, 5000)
  })
})

describe('MemoryTaskEngine evicts', () => {
  test('the oldest final task of the caller that has the most bytes, and never an unfinished task', async () => {
    const engine = new MemoryTaskEngine({ maxBytes: 100_000, maxBytesPerOwner: 100_000 })
    outcomeOf(engine, 'unfinished', { caller: 'mallory', start: { delayMs: 1e6 } })
    createFinal(engine, 'ann-1', { caller: 'ann', result: 'x'.repeat(5000) })
    for (let n = 0; n < 20; n++)
      createFinal(engine, `mallory-${String(n + 10)}`, { caller: 'mallory', result: 'x'.repeat(5000) })
    createFinal(engine, 'ann-2', { caller: 'ann', result: 'x'.repeat(5000) })
    const kept = await idsOf(engine)
    assert.ok(engine.usage().bytes <= 100_000)
    for (const id of ['unfinished', 'ann-1', 'ann-2']) assert.ok(kept.includes(id), id)
    const mallorys = kept.filter((id) => id.startsWith('mallory'))
    assert.deepEqual(
      mallorys,
      Array.from({ length: mallorys.length }, (_, n) => `mallory-${String(30 - mallorys.length + n)}`),
    )
    assert.ok(mallorys.length > 3)
  })

  test('the oldest task of a caller above its share, with its files', async () => {
    const engine = new MemoryTaskEngine({ maxEntriesPerOwner: 3, maxBytesPerOwner: 50_000 })
    const removed: string[] = []
    work(engine, () => never, { remove: async ({ id }) => { removed.push(id); return true } })
    for (let n = 0; n < 5; n++) {
      createFinal(engine, `ann-${String(n)}`, { caller: 'ann', hasFiles: true })
      createFinal(engine, `bob-${String(n)}`, { caller: 'bob', result: 'x'.repeat(10_000) })
      createFinal(engine, `nobody-${String(n)}`)
    }
    const kept = await idsOf(engine)
    assert.deepEqual(kept.filter((id) => id.startsWith('ann')), ['ann-2', 'ann-3', 'ann-4'])
    assert.deepEqual(kept.filter((id) => id.startsWith('bob')), ['bob-3', 'bob-4'])
    assert.equal(kept.filter((id) => id.startsWith('nobody')).length, 5)
    await eventually(() => removed.length === 2)
    assert.deepEqual(removed, ['ann-0', 'ann-1'])
  })

  test('again the files whose removal has failed', async () => {
    const clock = testClock()
    const engine = new MemoryTaskEngine({ clock })
    let calls = 0
    work(engine, ending(engine), { remove: async () => ++calls === 2 })
    createFinal(engine, 'a', { hasFiles: true })
    const task = engine.read('a') as StoredTask
    void engine.delete(task, task.version)
    await turn()
    assert.equal(calls, 1)
    for (let n = 0; n < 3; n++) await clock.advance(60_000)
    assert.equal(calls, 2)
  })

  test('an expired task, although nobody reads it', async () => {
    const engine = new MemoryTaskEngine()
    const removed: string[] = []
    work(engine, () => never, { remove: async ({ id }) => { removed.push(id); return true } })
    outcomeOf(engine, 'a', { keepMs: 20, hasFiles: true })
    await eventually(() => removed.length === 1)
    assert.equal(engine.usage().tasks, 0)
    await engine.close({ drainMs: 0 })
  })
})

describe('runs of MemoryTaskEngine', () => {
  test('begin in the order of arrival, even after tasks were cancelled', async () => {
    const engine = new MemoryTaskEngine()
    const ran: string[] = []
    for (let n = 0; n < 8; n++) outcomeOf(engine, String(n))
    for (const id of ['0', '3', '7'])
      void engine.change(engine.read(id) as StoredTask, { version: 1 }, { status: 'cancelled' })
    outcomeOf(engine, '8')
    work(engine, ending(engine, ran))
    await engine.close({ drainMs: 5000 })
    assert.deepEqual(ran, ['1', '2', '4', '5', '6', '8'])
  })

  test('begin after the caller of create has continued', async () => {
    const engine = new MemoryTaskEngine()
    const order: string[] = []
    work(engine, ending(engine, order))
    outcomeOf(engine, 'run')
    order.push('response')
    await Promise.resolve()
    await turn()
    assert.deepEqual(order, ['response', 'run'])
  })

  test('idle() resolves for each caller when no task waits or runs, including retries and delays', async () => {
    const engine = new MemoryTaskEngine()
    await engine.idle()
    const ran: string[] = []
    work(engine, async ({ task }) => {
      ran.push(task.id)
      await engine.change(
        task,
        { lease: String(task.run) },
        ran.length === 1 ? { status: 'queued', delayMs: 1 } : { status: 'completed' },
      )
    })
    outcomeOf(engine, 'tried-twice')
    outcomeOf(engine, 'later', { start: { delayMs: 5 } })
    await Promise.all([engine.idle(), engine.idle()])
    assert.deepEqual(ran.toSorted(), ['later', 'tried-twice', 'tried-twice'])
    assert.equal(engine.usage().unfinished, 0)
  })

  test('do not begin at once after a delay that is longer than a timer allows', async () => {
    const engine = new MemoryTaskEngine()
    const ran: string[] = []
    work(engine, ending(engine, ran))
    outcomeOf(engine, 'a', { start: { delayMs: 2 ** 31 + 5 } })
    await new Promise((resolve) => setTimeout(resolve, 20))
    assert.deepEqual([ran, (engine.read('a') as StoredTask).status], [[], 'queued'])
  })

  test('take only one place if they never settle', async () => {
    const engine = new MemoryTaskEngine()
    const ran: string[] = []
    const end = ending(engine, ran)
    work(engine, (run) => run.task.id === 'stuck' ? never : end(run), { concurrency: 2 })
    outcomeOf(engine, 'stuck')
    for (let n = 0; n < 5; n++) outcomeOf(engine, String(n))
    await eventually(() => ran.length === 5)
    assert.deepEqual(ran, ['0', '1', '2', '3', '4'])
    await engine.close({ drainMs: 0 })
  })

  test('can be closed without work(), which ends at once, and a second close has the same outcome', async () => {
    const engine = new MemoryTaskEngine()
    outcomeOf(engine, 'waits')
    outcomeOf(engine, 'delayed', { start: { delayMs: 1e6 } })
    const closing = engine.close({ drainMs: 600_000 })
    assert.equal(engine.close({ drainMs: 1 }), closing)
    await within(closing)
  })

  test('do not stop under fake timers of a test, and leave no fake timer behind', async (t) => {
    const fakes: [string, () => () => void][] = [
      ['of node:test', () => { t.mock.timers.enable(); return () => { t.mock.timers.reset() } }],
      ['put in place of the global ones', () => {
        const { setImmediate: real } = globalThis
        globalThis.setImmediate = (() => ({})) as unknown as typeof setImmediate
        return () => { globalThis.setImmediate = real }
      }],
    ]
    for (const [title, fake] of fakes) {
      const engine = new MemoryTaskEngine()
      const ran: string[] = []
      work(engine, ending(engine, ran))
      const real = fake()
      outcomeOf(engine, '1')
      real()
      for (let n = 0; n < 5; n++) await turn()
      assert.deepEqual(ran, ['1'], title)
      outcomeOf(engine, '2')
      for (let n = 0; n < 5; n++) await turn()
      assert.deepEqual(ran, ['1', '2'], title)
      await engine.close({ drainMs: 0 })
    }
  })

  test('keep no process alive while they wait, but a draining engine keeps its process alive', async () => {
    const start = (rest: string) => {
      const from = (path: string) => JSON.stringify(new URL(`../../../${path}`, import.meta.url).href)
      const code = `import { memory } from ${from('adapters/memory/index.ts')}
        import { createTasks, defineTask } from ${from('src/index.ts')}
        const work = defineTask({ name: 'work', run: (_, { signal }) => new Promise((resolve) => signal.addEventListener('abort', resolve)) })
        const tasks = createTasks({ ...memory(), definitions: [work] })
        ${rest}`
      return spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', code], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
    }
    const idle = start('await tasks.submit(work, 0, { delayMs: 60_000 })')
    const draining = start("await tasks.submit(work, 0); await tasks.close({ drainMs: 50 }); console.log('closed')")
    let said = ''
    draining.stdout.on('data', (text: Buffer) => { said += text.toString() })
    const exits = await Promise.all([once(idle, 'exit'), once(draining, 'close')])
    assert.deepEqual(exits, [[0, null], [0, null]])
    assert.equal(said, 'closed\n')
  })
})
