import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { useReference } from '../kit/reference.js'

const client = useReference()

async function begin(ms: number, start: 'task' | 'job' = 'task', fail = false): Promise<string> {
  const path = (await client.submit('wait', { ms, fail })).headers.get('location') ?? ''
  // Both resources show the same tasks.
  return start === 'task' ? path : path.replace('/api/status/', '/job-status/')
}

interface Event {
  readonly id: string
  readonly data: ReturnType<typeof JSON.parse>
}

/** Reads events as they come, as `curl -N` does. */
async function* events(response: Response): AsyncGenerator<Event> {
  let text = ''
  assert.ok(response.body)
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    text += chunk
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const fields = new Map(
        text
          .slice(0, end)
          .split('\n')
          .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
      )
      text = text.slice(end + 2)
      if (fields.has('data')) yield { id: fields.get('id') ?? '', data: JSON.parse(fields.get('data') ?? '') }
    }
  }
}

const SSE = { accept: 'text/event-stream' }

describe('a long poll', () => {
  test('gets its response when the task has ended', async () => {
    const path = await begin(300)
    const ended = await client.ask('GET', path, { headers: { prefer: 'wait=20' } })
    assert.equal(ended.json.status, 'completed')
    assert.equal(ended.headers.get('preference-applied'), 'wait=20')
  })

  test('gets its response after N seconds if the task has not ended', async () => {
    const path = await begin(60_000)
    const start = performance.now()
    const now = await client.ask('GET', path, { headers: { prefer: 'wait=1' } })
    assert.ok(performance.now() - start >= 990)
    assert.equal(now.json.status, 'processing')
    await client.ask('DELETE', path)
  })

  test('gets its response at the first change with If-None-Match, or a 304', async () => {
    const path = await begin(60_000)
    const { headers } = await client.ask('GET', path)
    const changed = await client.ask('GET', path, {
      headers: { 'prefer': 'wait=20', 'if-none-match': headers.get('etag') ?? '' },
    })
    assert.equal(changed.status, 200)
    assert.notEqual(changed.headers.get('etag'), headers.get('etag'))
    await client.ask('DELETE', path)
    const final = await client.ask('GET', path)
    const same = await client.ask('GET', path, {
      headers: { 'prefer': 'wait=20', 'if-none-match': final.headers.get('etag') ?? '' },
    })
    assert.equal(same.status, 304)
    assert.equal(same.text, '')
  })
})

describe('the event stream of a task', () => {
  test('SPEC 6.2: shows the state at once, then progress, then the end', async () => {
    const path = await begin(600)
    const response = await client.open('GET', path, { headers: SSE })
    assert.equal(response.status, 200)
    assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/)
    const seen: Event[] = []
    for await (const event of events(response)) seen.push(event)

    assert.ok(seen.length >= 3, String(seen.length))
    assert.equal(seen[0]?.data.status, 'processing')
    assert.deepEqual(seen.slice(0, -1).map(({ data }) => data.status), seen.slice(1).map(() => 'processing'))
    const done = seen.map(({ data }) => data.progress?.done ?? 0)
    assert.deepEqual(done, done.toSorted((a, b) => a - b))
    assert.deepEqual(seen.at(-1)?.data.result, { message: 'Waited for 600 ms.', ms: 600 })
    assert.equal(new Set(seen.map(({ id }) => id)).size, seen.length)

    const again = await client.ask('GET', path, { headers: { ...SSE, 'last-event-id': seen.at(-1)?.id ?? '' } })
    assert.equal(again.status, 204)
  })

  test('is sent in both formats', async () => {
    const path = await begin(50, 'job', true)
    const seen: Event['data'][] = []
    for await (const { data } of events(await client.open('GET', path, { headers: SSE }))) seen.push(data)
    assert.equal(seen.at(-1).state, 'failed')
    assert.equal(seen.at(-1).error.code, 'told_to_fail')
  })

  test('ends if another client cancels the task', async () => {
    const path = await begin(60_000)
    const stream = events(await client.open('GET', path, { headers: SSE }))
    assert.equal((await stream.next()).value.data.status, 'processing')
    await client.ask('DELETE', path)
    let last: Event | undefined
    for await (const event of stream) last = event
    assert.equal(last?.data.status, 'cancelled')
  })
})

describe('a cancel of a task', () => {
  for (const kind of ['task', 'job'] as const) {
    test(`SPEC 4.1.DELETE: ends a ${kind} at once, changes nothing when repeated, and deletes the task if it has the new ETag`, async () => {
      const path = await begin(60_000, kind)
      const before = (await client.ask('GET', path)).headers.get('etag') ?? ''
      const cancelled = await client.ask('DELETE', path)
      assert.equal(cancelled.status, 200)
      assert.equal(cancelled.json[kind === 'task' ? 'status' : 'state'], 'cancelled')
      assert.equal((await client.ask('GET', path)).text, cancelled.text)
      const repeated = await client.ask('DELETE', path, { headers: { 'if-match': before } })
      assert.deepEqual([repeated.status, repeated.json.code], [412, 'precondition_failed'])
      for (const headers of [{}, { 'if-match': '*' }]) {
        const again = await client.ask('DELETE', path, { headers })
        assert.deepEqual([again.status, again.text], [200, cancelled.text])
      }
      assert.equal(
        (await client.ask('DELETE', path, { headers: { 'if-match': cancelled.headers.get('etag') ?? '' } })).status,
        204,
      )
      assert.equal((await client.ask('GET', path)).status, 404)
    })
  }

  test('SPEC 4.1.DELETE: deletes a task that has ended, if it has the ETag', async () => {
    const path = await begin(0)
    await client.ended(path)
    for (const headers of [{}, { 'if-match': '*' }]) {
      const { status, json } = await client.ask('DELETE', path, { headers })
      assert.deepEqual([status, json.code], [428, 'precondition_required'])
    }
    assert.equal((await client.forget(path)).status, 204)
    assert.equal((await client.ask('GET', path)).status, 404)
    assert.equal((await client.ask('DELETE', path)).status, 404)
  })

  test('stops the run, and frees its place in the queue', async () => {
    const paths = await Promise.all(Array.from({ length: 10 }, () => begin(60_000)))
    const next = await begin(0)
    await Promise.all(paths.map((path) => client.ask('DELETE', path)))
    assert.equal((await client.ended(next)).json.status, 'completed')
  })
})

test('SPEC 3.1: a task with a later start is watched from before its start to its end, at each endpoint that starts work', async () => {
  const bodies = {
    '/api/long-running-task': { task: 'wait', data: { ms: 10 } },
    '/start-task': { taskData: 'x' },
  }
  await Promise.all(
    Object.entries(bodies).map(async ([endpoint, body]) => {
      const begun = await client.ask('POST', endpoint, { body: { ...body, startAt: 'PT2S' } })
      assert.equal(begun.status, 202, endpoint)
      const path = begun.headers.get('location') ?? ''
      const job = await client.ask('GET', path.replace(/.*\//, '/job-status/'))
      const poll = client.ask('GET', path, { headers: { prefer: 'wait=20' } })
      const seen: { status?: string; state?: string; startAt?: string }[] = []
      for await (const { data } of events(await client.open('GET', path, { headers: SSE }))) seen.push(data)
      const words = seen.map(({ status, state }) => status ?? state)
      assert.deepEqual([words[0], words.at(-1)], ['processing', 'completed'], endpoint)
      assert.match(job.text, /"state":"scheduled"/)
      assert.ok(Date.parse(seen[0]?.startAt ?? '') > Date.now() - 20_000, endpoint)
      assert.match((await poll).text, /"completed"/)
    }),
  )
})
