// Sources of the application that fail, or that yield what is no record.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { Transform } from 'node:stream'
import { describe, test } from 'node:test'
import parser from 'stream-json/parser.js'
import { streamArray } from 'stream-json/streamers/stream-array.js'
import { HttpError } from 'longhaul'
import { ndjsonUpload, type UploadSource } from 'longhaul/ndjson'
import { toNode } from 'longhaul/node'
import { streamJson } from 'longhaul/stream-json'
import { listen } from '../../kit/listen.js'
import { eventually } from '../kit/wire.js'

interface Answer {
  readonly status: number
  readonly code?: string | undefined
  readonly error: string
  readonly succeeded?: number | undefined
  readonly items?: unknown[] | undefined
  readonly reported: unknown[]
  readonly written: unknown[]
}

const TYPE = { 'content-type': 'application/json' }

/** Serves an upload from a source, and passes its address, what was written and what was reported. */
async function served<R>(
  source: UploadSource,
  use: (url: string, written: unknown[], reported: unknown[]) => Promise<R>,
  options = {},
): Promise<R> {
  const written: unknown[] = []
  const reported: unknown[] = []
  const upload = ndjsonUpload({
    source,
    batchSize: 1,
    write: (records) => {
      written.push(...records)
    },
    ...options,
  })
  const { url, close } = await listen(
    createServer(
      toNode(upload, {
        onError: (error) => {
          reported.push(error)
        },
      }),
    ),
  )
  try {
    return await use(url, written, reported)
  } finally {
    await close()
  }
}

const post = (source: UploadSource, body = '[]', options = {}): Promise<Answer> =>
  served(
    source,
    async (url, written, reported) => {
      const response = await fetch(url, { method: 'POST', headers: TYPE, body })
      const { code, error, summary, items } = (await response.json()) as {
        code?: string
        error: string
        summary?: { succeeded: number }
        items?: unknown[]
      }
      return { status: response.status, code, error, succeeded: summary?.succeeded, items, reported, written }
    },
    options,
  )

/** Yields a record, and then what `last` returns. */
const yielding = (last: () => unknown): UploadSource => ({
  mediaTypes: ['application/json'],
  async* read(body) {
    for await (const _ of body);
    yield { id: 1 }
    yield last()
  },
})

const throwing = (error: unknown): UploadSource => yielding(() => { throw error })

describe('an error of a source', () => {
  test('is a masked 500 with the report of the written records, if it is thrown and if it is yielded', async () => {
    for (const error of [
      new Error('the password is x'),
      new SyntaxError('Unexpected token x'),
      Object.assign(new Error('x'), { status: 404 }),
    ]) {
      for (const source of [throwing(error), yielding(() => error)]) {
        const { status, code, succeeded, written, reported, error: message } = await post(source)
        assert.deepEqual([status, code, succeeded, written], [500, 'internal_error', 1, [{ id: 1 }]])
        assert.equal(message, 'Something went wrong.')
        assert.equal((reported[0] as { cause?: unknown }).cause, error)
      }
    }
  })

  test('is sent to the client if it is an HttpError, and is not reported', async () => {
    const error = new HttpError(422, 'no_header', { message: 'The first row must have the names.' })
    for (const source of [throwing(error), yielding(() => error)]) {
      const { status, code, error: message, succeeded, reported } = await post(source)
      assert.deepEqual(
        [status, code, message, succeeded, reported],
        [422, 'no_header', 'The first row must have the names.', 1, []],
      )
    }
  })

  test('does not hide the error of the body', async () => {
    const swallowing: UploadSource = {
      mediaTypes: ['application/json'],
      async* read(body) {
        yield { id: 1 }
        try {
          for await (const _ of body);
        } catch {
          // As a parser does that ends with what it has.
        }
      },
    }
    const renaming: UploadSource = {
      mediaTypes: ['application/json'],
      async* read(body) {
        yield { id: 1 }
        try {
          for await (const _ of body);
        } catch {
          throw new Error('Premature close')
        }
      },
    }
    for (const source of [swallowing, renaming]) {
      const { status, code, succeeded, reported } = await post(source, '[1, 2, 3, 4, 5]', { maxDecodedBytes: 3 })
      assert.deepEqual([status, code, succeeded, reported], [413, 'body_too_large', 1, []])
    }
  })

  test('is not reported if the client has disconnected', async () => {
    let ended: (() => void) | undefined
    const end = new Promise<void>((resolve) => { ended = resolve })
    const source: UploadSource = {
      mediaTypes: ['application/json'],
      async* read(body) {
        try {
          for await (const _ of body) yield { id: 1 }
        } catch {
          ended?.()
          throw new Error('Premature close')
        }
      },
    }
    await served(source, async (url, written, reported) => {
      const socket = connect(Number(new URL(url).port), '127.0.0.1')
      socket.write('POST / HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n[')
      await eventually(() => written.length === 1, 'the first record is written')
      socket.destroy()
      await end
      assert.equal((await fetch(url, { method: 'POST', headers: TYPE, body: '[]' })).status, 200)
      assert.deepEqual(reported, [])
    })
  })
})

describe('a value that a source yields', () => {
  test('is a failed line if it is undefined, or JSON other than an object', async () => {
    for (const value of [undefined, null, 'text', 1, [{}]]) {
      const { status, items, written } = await post(yielding(() => value))
      assert.deepEqual([status, written], [200, [{ id: 1 }]])
      assert.equal((items as { error: { code: string } }[])[0]?.error.code, 'line_not_object')
    }
  })

  test('is an error for the operator if JSON would change it', async () => {
    for (const value of [
      new Map([['a', 1]]),
      { tags: new Set([1]) },
      { late: Promise.resolve(1) },
      Buffer.from('{}'),
      { n: 1n },
    ]) {
      const { status, code, succeeded, reported, written } = await post(yielding(() => value))
      assert.deepEqual([status, code, succeeded, written], [500, 'internal_error', 1, [{ id: 1 }]])
      assert.ok((reported[0] as { cause?: unknown }).cause instanceof TypeError)
    }
  })
})

describe('streamJson', () => {
  const stages = (own?: Transform) => [parser.asStream(), streamArray.asStream(), ...own ? [own] : []]

  test('passes on an error of `record`, and does not report malformed JSON', async () => {
    const source = (fail: () => never) =>
      streamJson(() => stages(), { record: ({ value }) => ((value as { id: number }).id === 2 ? fail() : value) })
    const body = '[{"id":1},{"id":2}]'
    const fault = await post(source(() => (undefined as never as { secretName: never }).secretName), body)
    assert.deepEqual(
      [fault.status, fault.error, fault.succeeded, fault.reported.length],
      [500, 'Something went wrong.', 1, 1],
    )
    const rejected = await post(
      source(() => {
        throw new HttpError(422, 'unknown_kind', { message: 'The kind is unknown.' })
      }),
      body,
    )
    assert.deepEqual(
      [rejected.status, rejected.code, rejected.succeeded, rejected.reported],
      [422, 'unknown_kind', 1, []],
    )
  })

  test('passes on an error of a stage of the application', async () => {
    for (const [error, status, code] of [
      [new Error('connect ECONNREFUSED db:5432'), 500, 'internal_error'],
      [new HttpError(409, 'closed', { message: 'The import is closed.' }), 409, 'closed'],
    ] as const) {
      const own = () =>
        new Transform({
          objectMode: true,
          transform: (_item, _encoding, done) => {
            done(error)
          },
        })
      const result = await post(
        streamJson(() => stages(own())),
        '[{"id":1}]',
      )
      assert.deepEqual([result.status, result.code], [status, code])
      assert.doesNotMatch(result.error, /ECONNREFUSED/)
    }
  })

  test('gives a 400 for a document that is no array, or that is malformed', async () => {
    for (const body of ['{"id":1}', '[{"id":]', '[{"id":1}']) {
      const { status, code, reported } = await post(streamJson(() => stages()), body)
      assert.deepEqual([status, code, reported], [400, 'malformed_json', []], body)
    }
  })
})
