// Azure's own poller, unchanged, waits for our tasks.
import { createHttpPoller, type OperationResponse, type OperationState, type RunningOperation } from '@azure/core-lro'
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { httpError } from '../../../src/http/errors.js'
import { openapi } from '../../../src/openapi/document.js'
import { azureFormat, type AzureFormatOptions } from 'longhaul/azure'
import { createTasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../src/tasks/http/endpoints.js'
import { memory } from '../../../adapters/memory/index.js'
import { router } from '../../../src/resources/router.js'
import { BINDINGS, members, site, type Site } from '../kit/tasks.js'
import { deferred, eventually } from '../../kit/wait.js'

interface Sent { readonly method: string, readonly path: string, readonly status: number, readonly body: unknown }

/** What Azure's clients put between the poller and the wire: a request, and an error for what is no success. */
function operationOf(call: Site['call'], sent: Sent[], origin: string): RunningOperation {
  const send = async (method: string, path: string, body?: unknown): Promise<OperationResponse> => {
    const response = await call(
      method,
      path.startsWith(origin) ? path.slice(origin.length) : path,
      body === undefined ? {} : { body },
    )
    const told =
      response.status === 304 ? undefined : ((await response.json()) as { error?: { code: string; message: string } })
    sent.push({ method, path, status: response.status, body: told })
    if (!response.ok)
      throw Object.assign(new Error(told?.error?.message), { name: 'RestError', code: told?.error?.code })
    return {
      flatResponse: told,
      rawResponse: {
        statusCode: response.status,
        request: { method, url: path },
        headers: Object.fromEntries(response.headers),
        body: told,
      },
    }
  }
  return { sendInitialRequest: () => send('POST', '/api/work', {}), sendPollRequest: (path) => send('GET', path) }
}

const ORIGIN = 'https://api.example.com'

const STYLES: readonly [string, AzureFormatOptions][] = [
  ['an absolute Operation-Location', { origin: ORIGIN }],
  ['a path in Operation-Location', {}],
  ['Location alone', { via: 'location' }],
]

for (const binding of BINDINGS) {
  for (const [style, options] of STYLES) {
    // The poller heeds Retry-After: a second each.
    describe(`@azure/core-lro over ${binding}, ${style}`, { concurrency: true }, () => {
      const viaLocation = options.via === 'location'
      const bench = async (t: Parameters<typeof site>[0], run: Parameters<typeof defineTask>[0]['run']) => {
        const work = defineTask({ name: 'work', run })
        const made = await site(t, binding, work, {
          endpoints: { format: azureFormat(options) },
          submit: { respond: 'always' },
        })
        const sent: Sent[] = []
        return { ...made, sent, operation: operationOf(made.call, sent, ORIGIN) }
      }

      test('waits for the result', async (t) => {
        const gate = deferred()
        const { operation, sent } = await bench(t, async (_, { progress }) => {
          progress(1, 3)
          await gate.promise
          return { message: 'done', n: 1 }
        })
        const seen: string[] = []
        const poller = createHttpPoller<Record<string, unknown>, OperationState<Record<string, unknown>>>(operation, {
          intervalInMs: 1,
          updateState: (state) => {
            seen.push(state.status)
            gate.resolve()
          },
        })
        const outcome = await poller.pollUntilDone()
        const result = viaLocation ? outcome : outcome['result']
        assert.deepEqual(result, { message: 'done', n: 1 })
        assert.equal(poller.operationState?.status, 'succeeded')
        assert.equal(seen[0], 'running')
        assert.equal(sent[0]?.status, 202)
        assert.equal(sent[1]?.status, viaLocation ? 202 : 200)
        if (!viaLocation) assert.equal(outcome['status'], 'Succeeded')
      })

      test('resumes from its serialised state', async (t) => {
        const gate = deferred()
        const { operation, sent } = await bench(t, async () => {
          await gate.promise
          return { message: 'late' }
        })
        const first = createHttpPoller(operation, { intervalInMs: 1 })
        const state = await first.serialize()
        gate.resolve()
        const second = createHttpPoller<Record<string, unknown>, OperationState<Record<string, unknown>>>(operation, {
          intervalInMs: 1,
          restoreFrom: state,
        })
        const outcome = await second.pollUntilDone()
        assert.deepEqual(viaLocation ? outcome : outcome['result'], { message: 'late' })
        assert.equal(sent.filter(({ method }) => method === 'POST').length, 1)
      })

      test('rejects with the code and the message of a failure', async (t) => {
        const { operation } = await bench(t, () => {
          throw httpError('unprocessable', { message: 'There is no such thing.' })
        })
        const poller = createHttpPoller(operation, { intervalInMs: 1 })
        await assert.rejects(
          Promise.resolve(poller.pollUntilDone()),
          viaLocation
            ? { code: 'unprocessable', message: 'There is no such thing.' }
            : /unprocessable\. There is no such thing\./,
        )
        assert.equal(poller.operationState?.status, 'failed')
      })

      test('masks errors that are not meant for clients', async (t) => {
        const { operation, sent } = await bench(t, () => { throw new Error('secret') })
        await assert.rejects(Promise.resolve(createHttpPoller(operation, { intervalInMs: 1 }).pollUntilDone()))
        assert.doesNotMatch(JSON.stringify(sent), /secret/)
      })

      test('reports a cancel', async (t) => {
        const { operation, sent, call } = await bench(t, (_, { signal }) => new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => { reject(new Error('aborted')) })
        }))
        const poller = createHttpPoller(operation, { intervalInMs: 1 })
        await poller.poll()
        const { id } = sent[0]?.body as { id: string }
        const cancelled = await call('DELETE', `/api/status/${id}`)
        assert.deepEqual([cancelled.status, (await members(cancelled))['status']], [200, 'Canceled'])
        await assert.rejects(
          Promise.resolve(poller.pollUntilDone()),
          viaLocation ? { code: 'task_cancelled' } : /canceled/i,
        )
        assert.equal(poller.operationState?.status, viaLocation ? 'failed' : 'canceled')
      })
    })
  }
}

describe('the format for Azure clients', () => {
  test('SPEC 4.6.3: has the same content in the 202 as in a GET of its Content-Location, queued and running', async (t) => {
    for (const via of ['operation-location', 'location'] as const) {
      const work = defineTask({ name: 'work', run: () => 1 })
      const { start, call } = await site(t, 'fetch', work, {
        worker: false,
        endpoints: { format: azureFormat({ via }) },
      })
      const response = await start()
      assert.equal(response.headers.has('operation-location'), via === 'operation-location')
      const body = await members(response)
      assert.equal(body['status'], 'NotStarted')
      const shown = await call('GET', response.headers.get('content-location') ?? '')
      assert.equal(shown.status, via === 'location' ? 202 : 200)
      assert.equal(shown.headers.get('retry-after'), '1')
      assert.deepEqual(await members(shown), body)
    }
  })

  test('has the progress as percentComplete, up to 100, and 100 at the end', async (t) => {
    const steps = [[1, 3, 33], [-1, 3, 0], [5, 3, 100], [1, undefined, undefined], [1, 0, undefined]] as const
    for (const [done, total, percent] of steps) {
      const gate = deferred()
      const work = defineTask({
        name: 'work',
        run: async (_, { progress }) => {
          progress(done, total, 'so far')
          await gate.promise
        },
      })
      const { start, call } = await site(t, 'fetch', work, { endpoints: { format: azureFormat() } })
      const path = (await start()).headers.get('location') ?? ''
      const now = async () =>
        (await (await call('GET', path)).json()) as { status: string; percentComplete?: number; message?: string }
      await eventually(async () => (await now()).message === 'so far')
      assert.equal((await now()).percentComplete, percent)
      gate.resolve()
      await eventually(async () => (await now()).status === 'Succeeded')
      assert.equal((await now()).percentComplete, 100)
    }
  })

  test('applies a condition to a successful response, but not to the response of a failed task', async (t) => {
    const gate = deferred()
    const work = defineTask({ name: 'work', run: async () => { await gate.promise; throw new Error('no') } })
    const { start, call } = await site(t, 'fetch', work, { endpoints: { format: azureFormat({ via: 'location' }) } })
    const path = (await start()).headers.get('location') ?? ''
    const ask = (etag: string | null) => call('GET', path, { headers: { 'if-none-match': etag ?? '' } })
    await eventually(async () => (await ask((await call('GET', path)).headers.get('etag'))).status === 304)
    gate.resolve()
    await eventually(async () => (await call('GET', path)).status === 422)
    const ended = await call('GET', path)
    assert.equal((await ask(ended.headers.get('etag'))).status, 422)
    assert.equal((await call('HEAD', path)).status, 422)
  })

  test('is described in the OpenAPI document', () => {
    const tasks = createTasks({ ...memory(), definitions: [defineTask({ name: 'work', run: () => 1 })] })
    const describes = (options: AzureFormatOptions) => {
      const { submit, status } = taskEndpoints(tasks, {
        statusPath: '/operations/{id}',
        owner: 'anyone',
        format: azureFormat(options),
      })
      const document = openapi(
        router({ 'POST /work': submit(tasks.definition('work') ?? assert.fail()), 'GET /operations/{id}': status }),
        { info: { title: 't', version: '1' } },
      )
      const paths = document['paths'] as Record<
        string,
        Record<string, { responses: Record<string, { headers: object }> }>
      >
      return [
        Object.keys(paths['/work']?.['post']?.responses['202']?.headers ?? {}),
        Object.keys(paths['/operations/{id}']?.['get']?.responses ?? {}),
      ]
    }
    const [fields, statuses] = describes({})
    assert.ok(fields?.includes('Operation-Location'))
    assert.ok(!statuses?.includes('202'))
    const [fewer, more] = describes({ via: 'location' })
    assert.ok(!fewer?.includes('Operation-Location'))
    assert.deepEqual(['200', '202', '409', '422'].filter((status) => !more?.includes(status)), [])
    return tasks.close({ drainMs: 0 })
  })

  test('rejects an invalid origin', () => {
    for (const origin of [
      'api.example.com', 'https://api.example.com/', 'https://a.example/base', 'ftp://a.example',
      'https://u:p@a.example', 'nonsense',
    ]) {
      assert.throws(() => azureFormat({ origin }), /origin must be like/, origin)
    }
    for (const origin of ['https://api.example.com', 'http://127.0.0.1:3000']) assert.ok(azureFormat({ origin }))
  })
})
