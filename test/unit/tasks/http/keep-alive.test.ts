// What holds the process while it waits for a task, and what does not.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { toFetch } from '../../../../adapters/fetch/index.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../../src/tasks/http/endpoints.js'
import { router } from '../../../../src/resources/router.js'
import { bench } from '../../kit/tasks.js'
import { coreOf } from '../../../../src/tasks/tasks.js'
import { eventually } from '../../../kit/wait.js'

const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
const turn = () => new Promise(setImmediate)
const never = defineTask({ name: 'never', run: () => new Promise(() => undefined) })

const from = (path: string) => JSON.stringify(new URL(`../../../../${path}`, import.meta.url).href)

/** Ends by itself: what its code waits for has to hold it. */
async function child(code: string): Promise<{ readonly said: string; readonly status: number | null }> {
  const run = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', `
    import { createTasks, defineTask } from ${from('src/index.ts')}
    import { memory } from ${from('adapters/memory/index.ts')}
    ${code}`], { stdio: ['ignore', 'pipe', 'ignore'] })
  let said = ''
  run.stdout.on('data', (text: Buffer) => { said += text.toString() })
  const [status] = await once(run, 'close') as [number | null]
  return { said, status }
}

describe('tasks.wait', () => {
  test('keeps the process alive until the task was retried, or until its time is over', async () => {
    const retried = child(`
      const work = defineTask({
        name: 'work', attempts: 2, backoff: { type: 'fixed', delayMs: 20 }, run: (_, { attempt }) => { if (attempt === 1) throw new Error('on purpose') },
      })
      const tasks = createTasks({ ...memory(), definitions: [work], onError: () => undefined })
      const task = await tasks.submit(work, 1)
      console.log((await task.wait({ timeoutMs: 60_000 })).status)`)
    const late = child(`
      const work = defineTask({ name: 'work', timeoutMs: 60, run: () => new Promise(() => undefined) })
      const tasks = createTasks({ ...memory(), definitions: [work], onError: () => undefined })
      const task = await tasks.submit(work, 1)
      console.log((await task.wait({ timeoutMs: 60_000 })).status)`)
    assert.deepEqual(await Promise.all([retried, late]), [
      { said: 'completed\n', status: 0 },
      { said: 'failed\n', status: 0 },
    ])
  })

  test('does not keep the process alive after the end of its wait', async (t) => {
    const { tasks, close } = bench({ definitions: [never] })
    t.after(close)
    const { taskId: id } = await tasks.submit(never, 1)
    const before = timers()
    const waiting = tasks.wait(id, { timeoutMs: 60_000 })
    await eventually(() => timers() === before + 1)
    await tasks.cancel(id)
    assert.equal((await waiting)?.status, 'cancelled')
    assert.equal(timers(), before)
  })
})

describe('waiting requests', () => {
  const site = `
    import { toFetch } from FETCH
    import { taskEndpoints } from ENDPOINTS
  `.replace('FETCH', from('adapters/fetch/index.ts')).replace('ENDPOINTS', from('src/index.ts'))
  const api = (work: string, prefer: string) => `${site}
      const work = ${work}
      const tasks = createTasks({ ...memory(), definitions: [work], onError: () => undefined })
      const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', anonymous: true, owner: () => undefined })
      const response = await toFetch(submit(work), { onError: () => undefined })(new Request('http://test/work', {
        method: 'POST', body: '{}', headers: { 'content-type': 'application/json', ${prefer} },
      }))
      console.log(response.status)`
  const retried = `defineTask({
    name: 'work', attempts: 2, backoff: { type: 'fixed', delayMs: 20 }, run: (_, { attempt }) => { if (attempt === 1) throw new Error('on purpose') },
  })`

  test('keep the process alive until their responses: respond-async with wait, synchronous, with a key', async () => {
    const answers = await Promise.all(
      ["'prefer': 'respond-async, wait=3'", '', "'idempotency-key': 'k'"].map((field) => child(api(retried, field))),
    )
    assert.deepEqual(answers, Array(3).fill({ said: '200\n', status: 0 }))
  })

  test('do not keep the process alive in a long poll, an event stream or a submission', async (t) => {
    const { tasks, engine, close } = bench({ definitions: [never] })
    const { submit, status } = taskEndpoints(tasks, {
      statusPath: '/tasks/{id}',
      anonymous: true,
      owner: () => undefined,
    })
    const call = toFetch(router({ 'POST /work': submit(never), 'GET|DELETE /tasks/{id}': status }), {
      onError: () => undefined,
    })
    const { taskId: id } = await tasks.submit(never, 1)
    const before = timers()
    const answers = [
      call(new Request(`http://test/tasks/${id}`, { headers: { prefer: 'wait=30' } })),
      call(
        new Request('http://test/work', {
          method: 'POST',
          body: '{}',
          headers: { 'content-type': 'application/json', 'prefer': 'respond-async, wait=30' },
        }),
      ),
      call(new Request(`http://test/tasks/${id}`, { headers: { accept: 'text/event-stream' } })).then((response) =>
        response.text(),
      ),
    ]
    // Two of them wait for the same task, and share what follows it.
    while (engine.usage().watches < 2) await turn()
    for (let n = 0; n < 10; n++) await turn()
    assert.equal(coreOf(tasks).waiters.size, 3)
    // An event stream has no end of its own, so it holds nothing.
    assert.equal(timers(), before + 2)
    // The library's own timers let a process end, so this test has to wait by one of its own.
    const hold = setInterval(() => undefined, 60_000)
    t.after(() => { clearInterval(hold) })
    await close()
    await Promise.all(answers)
    assert.equal(timers(), before + 1)
  })
})
