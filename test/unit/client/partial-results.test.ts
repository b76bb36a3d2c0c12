// The client reads partial results from a server that sends them in any pieces and breaks off.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createClient, readPartialResults } from '../../../src/client/index.js'

function clientOf(...answers: readonly (string | number)[]) {
  const asked: string[] = []
  const client = createClient({
    baseUrl: 'http://localhost', retry: { attempts: 1 },
    fetch: async (input) => {
      const answer = answers[asked.length]
      asked.push(String(input instanceof Request ? input.url : input))
      if (typeof answer !== 'string')
        return new Response(JSON.stringify({ error: 'Away', code: 'service_unavailable' }), { status: answer ?? 404 })
      return new Response(answer, { headers: { 'content-type': 'application/x-ndjson' } })
    },
  })
  return { client, asked, task: { statusUrl: 'http://localhost/tasks/1' } }
}

test('a reader of partial results continues after the last result when a stream ends early or the server is away', async () => {
  const { client, asked, task } = clientOf(
    '{"id":"a-1","value":"a"}\n\n{"id":"a-2","value":"b"}\n',
    503,
    '{"id":"a-3","value":"c"}\n{"end":{"status":"completed"}}\n',
  )
  const seen: unknown[] = []
  for await (const result of readPartialResults(client, task)) seen.push(result)
  assert.deepEqual(seen, [
    { id: 'a-1', value: 'a' },
    { id: 'a-2', value: 'b' },
    { id: 'a-3', value: 'c' },
  ])
  assert.deepEqual(
    asked.map((url) => new URL(url).search),
    ['', '?after=a-2', '?after=a-2'],
  )
})

test('a reader of partial results continues when a proxy ends a stream in the middle of a line', async () => {
  const { client, asked, task } = clientOf(
    '{"id":"a-1","value":"a"}\n{"id":"a-2","val', '{"id":"a-2","value":"b"}\n{"end":{"status":"completed"}}\n',
  )
  const seen: unknown[] = []
  for await (const { value } of readPartialResults(client, task)) seen.push(value)
  assert.deepEqual([seen, asked.map((url) => new URL(url).search)], [['a', 'b'], ['', '?after=a-1']])
})

test('a reader of partial results continues for as long as connections last, even without results', async (t) => {
  const quiet = Array.from({ length: 12 }, () => '\n')
  const { client, asked, task } = clientOf(...quiet, '{"id":"a-1","value":"late"}\n{"end":{"status":"completed"}}\n')
  let now = 0
  t.mock.method(performance, 'now', () => now += 15_000)
  t.mock.method(globalThis, 'setTimeout', (work: () => void) => setImmediate(work))
  const seen: unknown[] = []
  for await (const { value } of readPartialResults(client, task)) seen.push(value)
  assert.deepEqual([seen, asked.length], [['late'], 13])
})

test('a reader of partial results gives up if connections bring no results and do not last', async (t) => {
  const { client, asked, task } = clientOf(...Array.from({ length: 12 }, () => '\n'))
  t.mock.method(globalThis, 'setTimeout', (work: () => void) => setImmediate(work))
  await assert.rejects(readPartialResults(client, task).next(), { code: 'network_error' })
  assert.equal(asked.length, 8)
})

test('a reader of partial results reports a gap once, even if the connection breaks after the gap', async () => {
  const { client, asked, task } = clientOf(
    '{"id":"b-8","gap":{}}\n',
    '{"id":"b-9","value":1}\n{"end":{"status":"failed"}}\n',
  )
  const told: unknown[] = []
  for await (const { id } of readPartialResults(client, task, {
    after: 'a-4',
    onGap: () => {
      told.push('gap')
    },
  }))
    told.push(id)
  assert.deepEqual(told, ['gap', 'b-9'])
  assert.deepEqual(asked.map((url) => new URL(url).search), ['?after=a-4', '?after=b-8'])
})

test('a reader of partial results rejects with the error of a server without this task', async () => {
  const { client, task } = clientOf()
  await assert.rejects(readPartialResults(client, task).next(), { status: 404 })
})

test('a reader of partial results yields nothing if the server responded at once', async () => {
  const { client } = clientOf()
  assert.equal((await readPartialResults(client, { statusUrl: undefined }).next()).done, true)
})
