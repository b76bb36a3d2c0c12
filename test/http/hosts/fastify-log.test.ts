// What the log of a Fastify has, as pino writes it.
import assert from 'node:assert/strict'
import { afterEach, describe, test, type TestContext } from 'node:test'
import { fastify } from 'fastify'
import { createTasks, defineTask, reportErrorsTo, router, taskEndpoints } from 'longhaul'
import { fastifyLonghaul } from 'longhaul/fastify'
import { memory } from 'longhaul/memory'

interface Line {
  readonly level: number
  readonly msg: string
  readonly err?: { readonly message: string; readonly stack: string }
}

let stop: (() => void) | undefined
afterEach(() => {
  stop?.()
  stop = undefined
})

async function site(t: TestContext) {
  const lines: Line[] = []
  const fail = defineTask({ name: 'fail', files: true, run: () => { throw new Error('the disk is broken') } })
  const slow = defineTask({
    name: 'slow',
    run: (_input, { signal }) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', resolve)
      }),
  })
  const reported: unknown[] = []
  const tasks = createTasks({
    ...memory({ maxUnfinished: 1 }), definitions: [fail, slow], concurrency: 1,
    onError: (error) => { reported.push(error) },
  })
  const { submit } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const app = fastify({
    logger: {
      level: 'warn',
      stream: {
        write: (line: string) => {
          lines.push(JSON.parse(line) as Line)
        },
      },
    },
  })
  app.register(fastifyLonghaul, {
    handler: router({
      'POST /fail': submit(fail),
      'POST /slow': submit(slow),
      'POST /broken': () => {
        throw new Error('a bug')
      },
    }),
  })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await app.close()
  })
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  const post = async (path: string, headers: Record<string, string> = {}) => {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: '{}',
    })
    return [response.status, (await response.json() as { code?: string }).code]
  }
  return { post, lines, reported }
}

describe('the log of Fastify', () => {
  test('has one line without a stack for many rejections', async (t) => {
    const { post, lines } = await site(t)
    assert.equal((await post('/slow', { prefer: 'respond-async' }))[0], 202)
    for (let n = 0; n < 20; n++) assert.deepEqual(await post('/slow', { prefer: 'respond-async' }), [503, 'queue_full'])
    assert.deepEqual(
      lines.map(({ err }) => err?.stack),
      ['HttpError: 503 queue_full: Too much work is waiting already.'],
    )
  })

  test('does not repeat the failure of a task that its listener has received with its cause', async (t) => {
    const { post, lines, reported } = await site(t)
    for (let n = 0; n < 2; n++) assert.deepEqual(await post('/fail', { 'idempotency-key': 'k' }), [500, 'task_failed'])
    assert.deepEqual(reported.map((error) => (error as Error).message), ['the disk is broken'])
    assert.deepEqual(lines, [])
  })

  test('has each bug once, and has none if reportErrorsTo has a listener', async (t) => {
    const { post, lines } = await site(t)
    assert.deepEqual(await post('/broken'), [500, 'internal_error'])
    assert.deepEqual(lines.map(({ err }) => err?.message), ['a bug'])
    const heard: unknown[] = []
    stop = reportErrorsTo((error) => { heard.push((error as Error).message) })
    assert.deepEqual(await post('/broken'), [500, 'internal_error'])
    assert.deepEqual(heard, ['a bug'])
    assert.equal(lines.length, 1)
  })
})
