import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { readNdjson, writeNdjson, type LineFault } from '../../../src/client/index.js'
import { LineReader } from '../../../src/ndjson/line-reader.js'
import { fakeServer, json, lost, pieces, script } from '../kit/fake-server.js'

async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const one of source) found.push(one)
  return found
}

const bytes = (text: string) => new TextEncoder().encode(text)

function cut(whole: Uint8Array, sizes: readonly number[]): Uint8Array[] {
  const parts: Uint8Array[] = []
  let at = 0
  for (const size of sizes) {
    parts.push(whole.slice(at, at + size))
    at += size
  }
  return [...parts, whole.slice(at)]
}

/** Reads pieces; what was bad beside what was good. */
async function read(
  parts: readonly Uint8Array[],
  maxLineBytes?: number,
): Promise<{ records: object[]; faults: LineFault[] }> {
  const faults: LineFault[] = []
  const records = await all(
    readNdjson(pieces(parts), {
      onFault: (fault) => {
        faults.push(fault)
      },
      ...(maxLineBytes !== undefined && { maxLineBytes }),
    }),
  )
  return { records, faults }
}

describe('readNdjson', () => {
  test('reads the same records and bad lines as the server, for any division of the bytes', async () => {
    const good = fc.json().map((text) => `{"ä€😀":${text.replaceAll('__proto__', 'p')}}`)
    const line = fc
      .oneof(
        good,
        fc.constantFrom(
          '',
          '  ',
          '{"a":',
          '[1]',
          '7',
          '"x"',
          '\ufeff{}',
          ' {"a":1} \r',
          '{} {}',
          '{"long":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}',
        ),
      )
      .map(bytes)
    const odd = fc.constantFrom(Uint8Array.of(0xff, 0x7b), Uint8Array.of(0x7b, 0xc3, 0x7d))
    const lines = fc.array(
      fc.tuple(fc.oneof({ weight: 5, arbitrary: line }, { weight: 1, arbitrary: odd }), fc.constantFrom('\n', '\r\n')),
      { maxLength: 12 },
    )
    await fc.assert(
      fc.asyncProperty(lines, fc.boolean(), fc.array(fc.integer({ min: 1, max: 9 })), async (parts, open, sizes) => {
        const body = Buffer.concat([
          ...parts.flatMap(([text, end]) => [text, bytes(end)]),
          bytes(open ? '{"last":1}' : ''),
        ])
        const maxLineBytes = 60
        const found = await read(cut(body, sizes), maxLineBytes)
        const oracle = new LineReader({ maxLineBytes, maxErrors: Infinity })
        const batches = [oracle.read(body), oracle.end()]
        assert.deepEqual(
          found.records,
          batches.flatMap(({ records }) => records),
        )
        const theirs = batches.flatMap(({ errors }) => errors)
        assert.deepEqual(
          found.faults.map((fault) => fault.line),
          theirs.map((fault) => fault.line),
        )
        assert.deepEqual(
          found.faults.map((fault) => fault.code),
          theirs.map((fault) => fault.code),
        )
      }),
      { numRuns: 300 },
    )
  })

  test('throws for a bad line without onError', async () => {
    for (const [line, code] of [
      ['{"a"', 'line_malformed'],
      ['[]', 'line_not_object'],
      ['null', 'line_not_object'],
    ] as const) {
      await assert.rejects(all(readNdjson(pieces([`{}\n${line}\n`]))), {
        name: 'ClientError',
        code,
        message: /^Line 2 is /,
      })
    }
    await assert.rejects(all(readNdjson(pieces([Uint8Array.of(0x7b, 0xff, 0x7d, 10)]))), { code: 'line_not_utf8' })
  })

  test('has an exact limit in bytes, and keeps nothing of a longer line', async () => {
    const line = '{"a":"äöü"}'
    const size = bytes(line).length
    assert.deepEqual((await read([bytes(`${line}\n`)], size)).faults, [])
    assert.deepEqual(await read([bytes(`${line}\n{}\n`)], size - 1), {
      records: [{}],
      faults: [{ line: 1, code: 'line_too_long' }],
    })
    const endless = Array.from({ length: 2000 }, () => new Uint8Array(65_536).fill(120))
    const before = process.memoryUsage().arrayBuffers
    assert.deepEqual((await read([...endless, bytes('\n{"after":1}')], 1000)).records, [{ after: 1 }])
    assert.ok(process.memoryUsage().arrayBuffers - before < 80_000_000)
    await assert.rejects(all(readNdjson(pieces([bytes('x'.repeat(20))]), { maxLineBytes: 10 })), {
      code: 'line_too_long',
    })
  })

  test('reads byte by byte', async () => {
    const text = `{"a":"${'😀'.repeat(3000)}"}\n`
    assert.deepEqual((await read([...bytes(text)].map((byte) => Uint8Array.of(byte)))).records, [JSON.parse(text)])
  })

  test('reads a response, a body and any iterable of bytes', async () => {
    const one = [{ a: 1 }]
    assert.deepEqual(await all(readNdjson(new Response('{"a":1}\n'))), one)
    assert.deepEqual(await all(readNdjson(new Response('{"a":1}').body ?? assert.fail())), one)
    assert.deepEqual(await all(readNdjson((async function* () { yield bytes('{"a"'); yield bytes(':1}') })())), one)
    assert.deepEqual(await all(readNdjson(new Response(null))), [])
    await assert.rejects(all(readNdjson(new Response('{}', { status: 404 }))), { code: 'http_404', status: 404 })
  })

  test('closes the body when the reader leaves the loop', async () => {
    let cancelled = false
    const body = new ReadableStream<Uint8Array>({
      pull(controller) { controller.enqueue(bytes('{"a":1}\n')) },
      cancel() { cancelled = true },
    })
    for await (const record of readNdjson<{ a: number }>(body)) {
      assert.equal(record.a, 1)
      break
    }
    assert.equal(cancelled, true)
  })

  test('rejects after a broken connection, after it has yielded the records that arrived', async () => {
    const found: object[] = []
    await assert.rejects(
      async () => {
        for await (const record of readNdjson(pieces(['{"a":1}\n{"b"'], true))) found.push(record)
      },
      { code: 'network_error' },
    )
    assert.deepEqual(found, [{ a: 1 }])
  })
})

describe('writeNdjson', () => {
  test('writes text that can be read back', async () => {
    await fc.assert(fc.asyncProperty(fc.array(fc.dictionary(fc.string(), fc.jsonValue())), async (records) => {
      const found = await all(readNdjson(writeNdjson(records)))
      assert.equal(JSON.stringify(found), JSON.stringify(records))
    }), { numRuns: 100 })
  })

  test('creates records as they are read', async () => {
    let made = 0
    let returned = false
    const records = function* () {
      try {
        for (;;) yield { n: ++made, text: 'x'.repeat(1000) }
      } finally {
        returned = true
      }
    }
    const reader = writeNdjson(records()).getReader()
    assert.equal(made, 0)
    const { value } = await reader.read()
    assert.ok(value && value.length > 60_000 && value.length < 70_000)
    assert.ok(made < 80, String(made))
    await reader.cancel()
    assert.equal(returned, true)
  })

  test('reads async sources, and passes on their errors', async () => {
    const source = async function* () {
      yield { a: 1 }
      throw new Error('the cursor broke')
    }
    await assert.rejects(new Response(writeNdjson(source())).text(), /the cursor broke/)
  })

  test('rejects values that are not records', async () => {
    for (const bad of [[1], null, 7, new Date(), { toJSON: () => undefined }]) {
      await assert.rejects(new Response(writeNdjson([bad as object])).text(), TypeError)
    }
  })
})

describe('upload', () => {
  const report = {
    message: 'Read 2 records: 1 succeeded, 1 failed.',
    summary: { total: 2, succeeded: 1, failed: 1 },
    items: [{ line: 2, status: 400, error: { code: 'record_invalid', message: 'no' } }],
  }

  test('sends lines and returns the report', async () => {
    const { client, seen } = fakeServer(() => json(report))
    assert.deepEqual(await client.upload('/upload', [{ a: 1 }, { b: 2 }]), report)
    assert.equal(seen[0]?.body, '{"a":1}\n{"b":2}\n')
    assert.equal(seen[0]?.headers['content-type'], 'application/x-ndjson')
    assert.equal('prefer' in (seen[0]?.headers ?? {}), false)
  })

  test('sends a blob if streams cannot be sent', async () => {
    const bodies: unknown[] = []
    const fetch = (async (_: string, init: RequestInit) => {
      bodies.push(init.body)
      return json(report)
    }) as typeof globalThis.fetch
    const { client } = fakeServer(() => json(report), { fetch, streamUploads: false })
    await client.upload('/upload', [{ a: 1 }])
    assert.ok(bodies[0] instanceof Blob)
    assert.equal(await bodies[0].text(), '{"a":1}\n')
  })

  test('returns the result of a task as the report, in the background', async () => {
    const { client, seen } = fakeServer(
      script(
        lost,
        ({ headers }) => json(report, 200, { 'idempotency-key': headers['idempotency-key'] ?? '' }),
        () => json({ taskId: 't' }, 202, { location: '/s' }),
        () => json({ status: 'processing', progress: { done: 1 } }),
        () => json({ status: 'completed', result: report }),
      ),
    )
    const heard: unknown[] = []
    assert.deepEqual(
      await client.upload('/upload', () => [{ a: 1 }], {
        background: true,
        onProgress: ({ progress }) => {
          heard.push(progress?.done)
        },
      }),
      report,
    )
    assert.deepEqual(heard, [1, undefined])
    // The question has no records and a key of its own.
    assert.deepEqual([seen[1]?.body, seen[1]?.headers['prefer']], ['', undefined])
    assert.notEqual(seen[0]?.headers['idempotency-key'], seen[1]?.headers['idempotency-key'])
    assert.equal(seen[2]?.headers['prefer'], 'respond-async')
    assert.equal(seen[2]?.body, '{"a":1}\n')
    assert.equal(seen[0]?.headers['idempotency-key'], seen[2]?.headers['idempotency-key'])
  })

  test('repeats a lost request with the same key if the server acknowledges keys', async () => {
    const acknowledged = ({ headers }: { headers: Record<string, string> }) =>
      json(report, 200, { 'idempotency-key': headers['idempotency-key'] ?? '' })
    const { client, seen } = fakeServer(script(lost, acknowledged, acknowledged))
    assert.deepEqual(await client.upload('/upload', [{ a: 1 }], { idempotencyKey: 'import-7' }), report)
    assert.deepEqual(seen.map(({ body }) => body), ['{"a":1}\n', '', '{"a":1}\n'])
    assert.deepEqual([seen[0], seen[2]].map((request) => request?.headers['idempotency-key']), ['import-7', 'import-7'])
    const other = fakeServer(script(lost, () => json(report)))
    await assert.rejects(other.client.upload('/upload', [{ a: 1 }], { idempotencyKey: 'import-7' }), {
      code: 'network_error',
    })
    assert.equal(other.seen.length, 2)
    await assert.rejects(client.upload('/upload', [], { idempotencyKey: 'import-7', resumable: true }), TypeError)
  })

  test('does not send an upload again that may have been read in part, nor a source that can be read only once', async () => {
    const first = fakeServer(lost)
    await assert.rejects(first.client.upload('/upload', [{ a: 1 }]), { code: 'network_error' })
    assert.equal(first.seen.length, 1)
    const second = fakeServer(lost)
    await assert.rejects(
      second.client.upload(
        '/upload',
        (function* () {
          yield { a: 1 }
        })(),
        { background: true },
      ),
      { code: 'network_error' },
    )
    assert.equal(second.seen.length, 1)
    const third = fakeServer(script(() => json({}, 429), () => json(report)))
    await third.client.upload('/upload', [{ a: 1 }])
    assert.equal(third.seen.length, 2)
  })

  test('rejects with the error of the source', async () => {
    const error = new Error('the cursor broke')
    const { client } = fakeServer(() => json(report))
    await assert.rejects(client.upload('/upload', (function* () { yield {}; throw error })()), error)
  })
})

describe('records', () => {
  test('requests NDJSON, retries if it may, and rejects for an error', async () => {
    const { client, seen } = fakeServer(script(lost, () => json({}, 503), () => new Response('{"a":1}\n{"a":2}')))
    assert.deepEqual(await all(client.records<{ a: number }>('/bulk-data')), [{ a: 1 }, { a: 2 }])
    assert.equal(seen[2]?.headers['accept'], 'application/x-ndjson')
    await assert.rejects(all(fakeServer(() => json({ error: 'No.', code: 'forbidden' }, 403)).client.records('/x')), {
      code: 'forbidden',
      message: 'No.',
    })
  })

  test('rejects with the reason of an abort', async () => {
    const controller = new AbortController()
    const { client } = fakeServer(
      () =>
        new Response(
          new ReadableStream({
            start(stream) {
              stream.enqueue(bytes('{"a":1}\n'))
            },
          }),
        ),
    )
    await assert.rejects(async () => {
      for await (const _ of client.records('/x', { signal: controller.signal }))
        setImmediate(() => {
          controller.abort(new Error('enough'))
        })
    }, { message: 'enough' })
  })
})
