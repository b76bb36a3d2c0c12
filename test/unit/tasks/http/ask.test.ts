// Tasks that ask, over HTTP without a port: what clients see, and what their answers do.
import assert from 'node:assert/strict'
import { describe, test, type TestContext as Test } from 'node:test'
import { z } from 'zod'
import { memory } from '../../../../adapters/memory/index.js'
import { isHttpError } from '../../../../src/http/errors.js'
import type { HttpRequest } from '../../../../src/http/exchange.js'
import { router } from '../../../../src/resources/router.js'
import { jsonSchema } from '../../../../src/schema/json-schema.js'
import { jobFormat } from '../../../../src/tasks/http/formats.js'
import { taskEndpoints } from '../../../../src/tasks/http/endpoints.js'
import type { TaskEndpointsOptions } from '../../../../src/tasks/http/settings.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import type { TasksOptions } from '../../../../src/tasks/core/tasks-options.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import type { TaskContext } from '../../../../src/tasks/definition/run-context.js'
import { inject, testClock } from '../../../../src/testing/index.js'
import { deferred, eventually } from '../../../kit/wait.js'

const asks = {
  approve: jsonSchema<{ send: boolean }>({
    type: 'object', required: ['send'], properties: { send: { type: 'boolean' } }, additionalProperties: false,
  }),
  count: z.object({ n: z.coerce.number().int() }),
}
type Context = TaskContext<unknown, { step: number }, typeof asks>
const HOUR = 3_600_000

interface Seen {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly json: Readonly<Record<string, never>> & {
    readonly code?: string, readonly details?: readonly { pointer: string, message: string }[]
    readonly inputs?: Readonly<Record<string, Record<string, unknown>>>
  }
}

function setUp(
  t: Test, run: (context: Context, input: unknown) => unknown,
  { tasks: more = {}, endpoints: options = {} }: {
    readonly tasks?: Partial<TasksOptions>, readonly endpoints?: Partial<TaskEndpointsOptions>,
  } = {},
) {
  const clock = testClock()
  const heard: unknown[] = []
  const mail = defineTask({
    name: 'mail', asks, checkpoint: z.object({ step: z.number() }), attempts: 2, backoff: { type: 'fixed', delayMs: 0 },
    run: async (input, context) => (await run(context, input)) as string,
  })
  const { engine, store, blobs } = memory({ clock })
  const tasks = createTasks({
    engine, store, blobs, definitions: [mail], onError: (error) => { heard.push(error) }, ...more,
  })
  t.after(() => tasks.close({ drainMs: 0 }))
  const endpoints = taskEndpoints(tasks, {
    statusPath: '/tasks/{id}', owner: ({ headers }: HttpRequest) => headers['x-user'] as string | undefined, ...options,
  })
  const handler = router({
    'POST /mails': endpoints.submit(mail), 'GET /tasks': endpoints.list,
    'GET|HEAD|DELETE|OPTIONS /tasks/{id}': endpoints.status, 'GET|POST|OPTIONS /tasks/{id}/input': endpoints.input,
    'POST /tasks/{id}/retry': endpoints.retry,
  })
  const send = async (
    method: string, path: string, body?: unknown, headers: Record<string, string> = {},
  ): Promise<Seen> => {
    const response = await inject(handler, {
      method,
      path,
      headers: { 'x-user': 'ann', ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      onError: (error) => {
        heard.push(error)
      },
    })
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      json: (text === '' ? {} : JSON.parse(text)) as Seen['json'],
    }
  }
  /** Submits a mail, and waits until it asks. */
  const asked = async (): Promise<string> => {
    const { taskId } = await tasks.submit(mail, 1, { owner: 'ann' })
    await reaches(taskId, 'input_required')
    return taskId
  }
  const reaches = (id: string, status: string) => eventually(async () => (await tasks.get(id))?.status === status)
  return { clock, heard, mail, engine, tasks, endpoints, send, asked, reaches }
}

const approve = ({ ask }: Context) => ask('approve', { message: 'Send it?' })
const answer = { approve: { send: true } }

describe('A run that asks', () => {
  test('ends without a failure, and shows its question', async (t) => {
    const { heard, tasks, asked, send, engine } = setUp(t, approve)
    const id = await asked()
    const { status, json, headers } = await send('GET', `/tasks/${id}`)
    assert.equal(status, 200)
    const { inputs, status: shown, message, attempt } = json as unknown as Record<string, unknown>
    assert.deepEqual([shown, message, attempt], ['input_required', 'The task waits for an answer.', undefined])
    const { approve: { askedAt, expiresAt, ...question } } = inputs as { approve: Record<string, string> }
    assert.equal(Date.parse(expiresAt as string) - Date.parse(askedAt as string), 7 * 24 * HOUR)
    assert.deepEqual(question, {
      message: 'Send it?',
      schema: {
        type: 'object', required: ['send'], properties: { send: { type: 'boolean' } }, additionalProperties: false,
      },
    })
    assert.ok(headers['retry-after'] !== undefined, 'there is no Retry-After')
    assert.deepEqual(heard, [])
    assert.deepEqual(await engine.counts('default'), { running: 0, waiting: 0, delayed: 1 })
    const task = await tasks.get(id)
    assert.ok(
      task?.status === 'input_required' && task.inputs['approve']?.expiresAt instanceof Date,
      'times are no dates',
    )
  })

  test('runs again once the question is answered, with its checkpoint, in the same attempt', async (t) => {
    const seen: unknown[] = []
    const { asked, send, tasks, reaches } = setUp(t, async ({ ask, checkpoint, attempt, lastAttempt, workId }) => {
      seen.push([checkpoint.value, attempt, lastAttempt, workId])
      await checkpoint.save({ step: 1 })
      const { send } = await ask('approve', { message: 'Send it?' })
      return send ? 'sent' : 'kept'
    })
    const id = await asked()
    const { status, json } = await send('POST', `/tasks/${id}/input`, answer)
    assert.deepEqual([status, (json as unknown as { status: string }).status], [200, 'processing'])
    await reaches(id, 'completed')
    assert.equal((await tasks.get(id))?.result, 'sent')
    const [first, second] = seen as [unknown[], unknown[]]
    assert.deepEqual(second, [{ step: 1 }, ...first.slice(1)])
    assert.deepEqual(first.slice(0, 3), [undefined, 1, false])
  })

  test('executes nothing after the question, even if it catches errors', async (t) => {
    const passed: string[] = []
    let aborted: unknown
    const { asked } = setUp(t, async ({ ask, signal }) => {
      signal.addEventListener('abort', () => { aborted = signal.reason })
      try {
        await ask('approve', { message: 'Send it?' })
        passed.push('answer')
      } catch {
        passed.push('catch')
      } finally {
        passed.push('finally')
      }
      return 'sent'
    })
    await asked()
    await new Promise((resolve) => { setImmediate(resolve) })
    assert.deepEqual(passed, [])
    assert.match(String(aborted), /waits for an answer/)
  })

  test('asks several questions in one change, and continues after the last answer', async (t) => {
    const { asked, send, tasks, reaches, engine } = setUp(t, async ({ ask }) => {
      const [one, { n }] = await Promise.all([
        ask('approve', { message: 'Send it?' }), ask('how-many', { message: 'How many?', schema: 'count' }),
      ])
      return `${one.send} ${n}`
    })
    const id = await asked()
    assert.equal((await engine.read(id))?.version, 3)
    const part = await send('POST', `/tasks/${id}/input`, { 'how-many': { n: '3' } })
    assert.deepEqual(Object.keys(part.json.inputs ?? {}), ['approve'])
    assert.equal((await tasks.get(id))?.status, 'input_required')
    await send('POST', `/tasks/${id}/input`, answer)
    await reaches(id, 'completed')
    assert.equal((await tasks.get(id))?.result, 'true 3')
  })

  test('asks one question after another, each once', async (t) => {
    const { asked, send, tasks, reaches } = setUp(t, async ({ ask }) => {
      const first = await ask('approve', { message: 'Send the first?' })
      const second = await ask('second', { message: 'Send the second?', schema: 'approve' })
      return `${first.send} ${second.send}`
    })
    const id = await asked()
    await send('POST', `/tasks/${id}/input`, answer)
    await eventually(async () => Object.keys((await send('GET', `/tasks/${id}`)).json.inputs ?? {})[0] === 'second')
    await send('POST', `/tasks/${id}/input`, { second: { send: false } })
    await reaches(id, 'completed')
    assert.equal((await tasks.get(id))?.result, 'true false')
  })

  test('gets input_timed_out when its time is over, and may catch it', async (t) => {
    const { asked, clock, tasks, reaches } = setUp(t, async ({ ask }) => {
      try {
        await ask('approve', { message: 'Send it?', timeoutMs: HOUR })
        return 'sent'
      } catch (error) {
        return isHttpError(error) ? error.code : 'other'
      }
    })
    const id = await asked()
    await clock.advance(HOUR - 1000)
    assert.equal((await tasks.get(id))?.status, 'input_required')
    await clock.advance(2000)
    await reaches(id, 'completed')
    assert.equal((await tasks.get(id))?.result, 'input_timed_out')
  })

  test('fails the task when its time is over, without another attempt', async (t) => {
    const { asked, clock, send, reaches, heard } = setUp(t, ({ ask }) =>
      ask('approve', { message: 'Send it?', timeoutMs: HOUR }),
    )
    const id = await asked()
    await clock.advance(HOUR + 1000)
    await reaches(id, 'failed')
    const { json } = await send('GET', `/tasks/${id}`)
    assert.equal((json as unknown as { error: { code: string } }).error.code, 'input_timed_out')
    const late = await send('POST', `/tasks/${id}/input`, answer)
    assert.deepEqual([late.status, late.json.code], [409, 'task_already_final'])
    await send('POST', `/tasks/${id}/retry`, {})
    await reaches(id, 'input_required')
    assert.deepEqual(heard, [])
  })

  test('keeps its answers after a failed attempt', async (t) => {
    let runs = 0
    const { asked, send, tasks, reaches } = setUp(t, async ({ ask }) => {
      const { send } = await ask('approve', { message: 'Send it?' })
      if (++runs === 1) throw new Error('The mail server is away')
      return String(send)
    })
    const id = await asked()
    await send('POST', `/tasks/${id}/input`, answer)
    await reaches(id, 'completed')
    assert.deepEqual([(await tasks.get(id))?.result, runs], ['true', 2])
  })

  test('rejects a wrong question, and a question after its end', async (t) => {
    const errors: string[] = []
    const late = deferred<Context>()
    const noted = async (asking: Promise<unknown>) => {
      await asking.catch((error: unknown) => {
        errors.push(isHttpError(error) ? error.code : (error as Error).message)
      })
    }
    const { tasks, mail, reaches } = setUp(t, async (context) => {
      const ask = context.ask as (key: string, question: object) => Promise<unknown>
      for (const [key, question] of [
        ['1', { message: 'x' }], ['unknown', { message: 'x' }], ['approve', { message: '' }],
        ['approve', { message: 'x', timeoutMs: 0 }], ['approve', { message: 'x', colour: 'red' }],
      ] as const) await noted(ask(key, question))
      late.resolve(context)
      return 'done'
    })
    const { taskId } = await tasks.submit(mail, 1, { owner: 'ann' })
    await reaches(taskId, 'completed')
    await noted((await late.promise).ask('approve', { message: 'Too late?' }))
    assert.equal(errors.length, 6)
    assert.match(errors[0] ?? '', /the key must be/)
    assert.match(errors[1] ?? '', /no schema unknown among the asks of mail/)
    assert.match(errors[2] ?? '', /message must be/)
    assert.match(errors[3] ?? '', /timeoutMs must be/)
    assert.match(errors[4] ?? '', /colour/)
    assert.equal(errors[5], 'attempt_replaced')
  })

  test('fails with too many questions', async (t) => {
    const { tasks, mail, reaches, heard } = setUp(t, ({ ask }) => Promise.all(
      Array.from({ length: 33 }, (_, n) => ask(`mail-${n}`, { message: 'Send it?', schema: 'approve' })),
    ))
    const { taskId } = await tasks.submit(mail, 1, { owner: 'ann' })
    await reaches(taskId, 'failed')
    assert.match(String(heard[0]), /may ask 32 questions/)
  })
})

describe('An answer', () => {
  test('is rejected with the error and its place, and changes nothing', async (t) => {
    const { asked, send, engine } = setUp(t, approve)
    const id = await asked()
    const before = await engine.read(id)
    for (const [body, pointer] of [
      [{ approve: { send: 'yes' } }, '/approve/send'], [{ approve: {} }, '/approve/send'], [{}, ''], [[], ''],
    ] as const) {
      const { status, json } = await send('POST', `/tasks/${id}/input`, body)
      assert.deepEqual([status, json.code, json.details?.[0]?.pointer], [400, 'invalid_input', pointer])
    }
    const unknown = await send('POST', `/tasks/${id}/input`, { ...answer, toString: 1 })
    assert.deepEqual(
      [unknown.status, unknown.json.code, unknown.json.details?.[0]?.pointer],
      [422, 'unknown_input', '/toString'],
    )
    assert.deepEqual(await engine.read(id), before)
  })

  test('gets 200 if it is repeated, and 409 if it differs from the stored one', async (t) => {
    const gate = deferred()
    const { asked, send } = setUp(t, async (context) => {
      await approve(context)
      await gate.promise
      return 'sent'
    })
    const id = await asked()
    for (let n = 0; n < 3; n++) assert.equal((await send('POST', `/tasks/${id}/input`, answer)).status, 200)
    const other = await send('POST', `/tasks/${id}/input`, { approve: { send: false } })
    assert.deepEqual([other.status, other.json.code], [409, 'already_answered'])
    gate.resolve()
  })

  test('gets the 404 of an unknown task if the task belongs to another owner', async (t) => {
    const { asked, send } = setUp(t, approve)
    const id = await asked()
    const others = await send('POST', `/tasks/${id}/input`, answer, { 'x-user': 'bob' })
    const unknown = await send('POST', '/tasks/nothing/input', answer)
    assert.deepEqual([others.status, others.json], [404, unknown.json])
    assert.equal((await send('GET', `/tasks/${id}`)).json.inputs?.['approve']?.['message'], 'Send it?')
  })

  test('gets 409 if the task is cancelled', async (t) => {
    const { asked, send } = setUp(t, approve)
    const id = await asked()
    assert.equal((await send('DELETE', `/tasks/${id}`)).status, 200)
    const { status, json } = await send('POST', `/tasks/${id}/input`, answer)
    assert.deepEqual([status, json.code], [409, 'task_already_final'])
  })

  test('is validated, even if the application gives it', async (t) => {
    const { asked, tasks, reaches } = setUp(t, approve)
    const id = await asked()
    await assert.rejects(tasks.answer(id, { approve: 1 }), { code: 'invalid_input' })
    assert.equal(await tasks.ownedBy('bob').answer(id, answer), undefined)
    assert.equal((await tasks.ownedBy('ann').answer(id, answer))?.status, 'queued')
    await reaches(id, 'completed')
    assert.equal((await tasks.answer(id, answer))?.status, 'completed')
  })

  test('gets 503 if only a newer version of the application can check it', async (t) => {
    const { asked, engine, tasks } = setUp(t, approve)
    const id = await asked()
    const stored = await engine.read(id)
    assert.ok(stored)
    const { inputs } = stored.details as { inputs: { approve: object } }
    await engine.change(
      stored,
      { version: stored.version },
      { details: { inputs: { approve: { ...inputs.approve, kind: 'newer' } } } },
    )
    await assert.rejects(tasks.answer(id, answer), { code: 'service_unavailable' })
  })
})

describe('The endpoint of answers', () => {
  test('lists its methods in OPTIONS and in a 405', async (t) => {
    const { send } = setUp(t, approve)
    const options = await send('OPTIONS', '/tasks/a/input')
    assert.deepEqual([options.status, options.headers['allow']], [200, 'POST, OPTIONS'])
    assert.equal((await send('GET', '/tasks/a/input')).status, 405)
  })

  test('rejects a body that is too large', async (t) => {
    const { asked, send } = setUp(t, approve)
    const id = await asked()
    const { status } = await send('POST', `/tasks/${id}/input`, { approve: { send: true, x: 'x'.repeat(200_000) } })
    assert.equal(status, 413)
  })
})

describe('A request that waits', () => {
  test('gets 202 with the question, if it is synchronous', async (t) => {
    const { send, tasks, reaches } = setUp(t, approve, { endpoints: { syncTimeoutMs: 600_000 } })
    const { status, headers, json } = await send('POST', '/mails', 1)
    assert.deepEqual([status, (json as unknown as { status: string }).status], [202, 'input_required'])
    const location = String(headers['location'])
    assert.equal((await send('POST', `${location}/input`, answer)).status, 200)
    const id = location.slice('/tasks/'.length)
    await reaches(id, 'completed')
    assert.deepEqual((await tasks.get(id))?.result, { send: true })
  })

  test('gets the result, if it is synchronous and the run does not ask', async (t) => {
    const { send } = setUp(t, () => 'sent')
    const { status, json } = await send('POST', '/mails', 1)
    assert.deepEqual([status, json], [200, 'sent'])
  })

  test('gets 202 with the question during respond-async, wait=N', async (t) => {
    const { send } = setUp(t, approve)
    const { status, json } = await send('POST', '/mails', 1, { prefer: 'respond-async, wait=20' })
    assert.deepEqual([status, Object.keys(json.inputs ?? {})], [202, ['approve']])
  })

  test('ends a long poll when the task asks, and waits for a change if the client has the question', async (t) => {
    const { send, mail, tasks } = setUp(t, approve)
    const { taskId } = await tasks.submit(mail, 1, { owner: 'ann' })
    const { json, headers } = await send('GET', `/tasks/${taskId}`, undefined, { prefer: 'wait=20' })
    assert.ok(json.inputs, 'the poll has no question')
    const next = send('GET', `/tasks/${taskId}`, undefined, {
      'prefer': 'wait=20',
      'if-none-match': String(headers['etag']),
    })
    await send('POST', `/tasks/${taskId}/input`, answer)
    assert.equal((await next).json.inputs, undefined)
  })

  test('finds tasks that ask in a list', async (t) => {
    const { send, asked } = setUp(t, approve)
    const id = await asked()
    const items = async (status: string) => (
      (await send('GET', `/tasks?status=${status}`)).json as unknown as { items: { taskId: string }[] }
    ).items.map(({ taskId }) => taskId)
    assert.deepEqual(await items('input_required'), [id])
    assert.deepEqual(await items('processing'), [])
  })

  test('sees the question in the format of jobs', async (t) => {
    const { asked, send } = setUp(t, approve, { endpoints: { format: jobFormat } })
    const { json } = await send('GET', `/tasks/${await asked()}`)
    assert.equal((json as unknown as { state: string }).state, 'input_required')
    assert.ok(json.inputs?.['approve'], 'there is no question')
  })
})

test('A definition without asks cannot ask', async (t) => {
  const { engine, store } = memory()
  const plain = defineTask({ name: 'plain', run: async (_input, { ask }) => {
    await (ask as unknown as (key: string, question: object) => Promise<unknown>)('approve', { message: 'x' })
    return ''
  } })
  const heard: unknown[] = []
  const tasks = createTasks({ engine, store, definitions: [plain], onError: (error) => { heard.push(error) } })
  t.after(() => tasks.close({ drainMs: 0 }))
  const task = await tasks.submit(plain, 1)
  assert.equal((await task.wait({ timeoutMs: 60_000 }))?.status, 'failed')
  assert.match(String(heard[0]), /pass defineTask the option asks/)
  assert.throws(() => defineTask({ name: 'x', asks: { 1: asks.count }, run: () => '' }), /asks must be/)
  assert.throws(() => defineTask({ name: 'x', asks: {}, run: () => '' }), /asks must be/)
})
