import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ask, type Answer } from '../../http/kit/wire.js'
import { SmallProcess } from '../kit/small-process.js'
import { eventually } from '../../kit/wait.js'

const MIB = 1 << 20
const LENGTH = 88_000
/** 0.25 MiB as text, some 6 MB once parsed. */
const BODY = Buffer.from(`[${'{},'.repeat(LENGTH - 1)}{}]`)
const HEADERS = { 'content-type': 'application/json' }

interface Usage {
  readonly unfinished: number
  readonly bytes: number
  readonly runs: number
  readonly requests: number
}

/** A process of 96 MiB takes bodies that would fill it many times over, were they kept parsed. */
async function fill(path: string, headers: readonly Record<string, string>[]): Promise<void> {
  const server = await SmallProcess.start('waiting-server.ts', { heapMiB: 96 })
  try {
    const locations: string[] = []
    let refused = 0
    for (let at = 0; refused < 5; at++) {
      assert.ok(at < 200, 'the engine never says that it is full')
      const more = headers[at % headers.length] as Record<string, string>
      const key = `"${String(at)}"`
      const answer = await ask(server.port, 'POST', path, {
        body: BODY, headers: { ...HEADERS, ...more, ...'idempotency-key' in more ? { 'idempotency-key': key } : {} },
      })
      if (answer.status === 202) {
        locations.push(String(answer.headers['location']))
        continue
      }
      refused++
      assert.deepEqual([answer.status, (JSON.parse(answer.body) as { code: string }).code], [503, 'queue_full'])
      assert.match(String(answer.headers['retry-after']), /^[0-9]+$/)
    }
    assert.ok(locations.length > 23, `${String(locations.length)} accepted`)
    const { bytes } = await server.tell<Usage>('usage')
    assert.ok(bytes > 8 * MIB && bytes <= 36 * MIB, `${String(bytes)} bytes wait`)
    await server.tell('go')
    await eventually(
      async () => (await server.tell<Usage>('usage')).runs === locations.length,
      120_000,
      'all that was accepted runs',
    )
    for (const location of locations) {
      const { body } = await ask(server.port, 'GET', location)
      const { status, result } = JSON.parse(body) as { status: string, result: number }
      assert.deepEqual([status, result], ['completed', LENGTH])
    }
    const { unfinished, bytes: left } = await server.tell<Usage>('usage')
    assert.equal(unfinished, 0)
    assert.ok(left < MIB, `${String(left)} bytes are left`)
  } finally {
    await server.stop()
  }
}

/** Sends bodies with requests that wait for the end of their work, one after the other, until five are refused. */
async function hold(headers: (at: number) => Record<string, string>): Promise<void> {
  const server = await SmallProcess.start('waiting-server.ts', { heapMiB: 96 })
  try {
    const answers: Promise<Answer>[] = []
    let refused = 0
    for (let at = 0; refused < 5; at++) {
      assert.ok(at < 150, 'the process never says that it is full')
      const answer = ask(server.port, 'POST', '/once', { body: BODY, headers: { ...HEADERS, ...headers(at) } })
      let status: number | undefined
      answer.then((settled) => { status = settled.status }, () => { status = 0 })
      answers.push(answer)
      // All but those who are refused wait, and so does the work of those who run.
      await eventually(
        async () => status !== undefined || (await server.tell<Usage>('usage')).requests > at - refused,
        60_000,
        'it waits',
      )
      if (status === 503) refused++
      else assert.equal(status, undefined)
    }
    assert.ok(answers.length > 23, `${String(answers.length)} requests`)
    await server.tell('go')
    const statuses = (await Promise.all(answers)).map(({ status }) => status)
    assert.deepEqual(new Set(statuses), new Set([200, 503]))
    assert.equal(statuses.filter((status) => status === 503).length, 5)
  } finally {
    await server.stop()
  }
}

describe('accepted bodies of 0.25 MiB of empty objects, in a process with a heap of 96 MiB', () => {
  const async = { prefer: 'respond-async' }

  test('waiting tasks are bounded by bytes: further tasks get 503 queue_full, and all accepted tasks end', async () => {
    await fill('/once', [async])
  })

  test('tasks that wait for their next attempt are bounded by bytes', async () => {
    await fill('/again', [async])
  })

  test('requests that wait for their task keep no body in memory', async () => {
    await hold(() => ({ prefer: 'respond-async, wait=600' }))
  })

  test('waiting synchronous responses keep no body in memory', async () => {
    await hold(() => ({}))
  })

  test('waiting synchronous responses with an Idempotency-Key keep no body in memory', async () => {
    await hold((at) => ({ 'idempotency-key': `"${String(at)}"` }))
  })
})
