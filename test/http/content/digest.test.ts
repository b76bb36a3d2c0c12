// Content-Digest (RFC 9530) on everything that takes a body, from outside.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import express from 'express'
import { readBytes, readJson } from '../../../src/http/body/body.js'
import { isHttpError } from '../../../src/http/errors.js'
import { bulkCreate } from 'longhaul/bulk'
import { toFetch } from 'longhaul/fetch'
import { toNode } from 'longhaul/node'
import { collection } from 'longhaul/resources'
import { ndjsonUpload } from 'longhaul/ndjson'
import type { Handler } from 'longhaul'
import { fakeRequest } from '../../unit/kit/request.js'
import { useReference } from '../kit/reference.js'

const digestOf = (body: string | Buffer, name = 'sha-256'): string =>
  `${name}=:${createHash(name.replace('-', '')).update(body).digest('base64')}:`

interface Upload {
  readonly method: string
  readonly path: string
  readonly type: string
  readonly body: string | Buffer
  readonly headers?: Record<string, string>
}

const users = (count: number, tag: string): { email: string }[] =>
  Array.from({ length: count }, (_, at) => ({ email: `${tag}-${at}@digest.example` }))
const lines = (records: readonly object[]): string => records.map((record) => `${JSON.stringify(record)}\n`).join('')
const JSON_TYPE = 'application/json'
const NDJSON = 'application/x-ndjson'

/** Every endpoint that takes a body, each in the ways in which it may be read. */
const uploads = (tag: string): Record<string, Upload> => ({
  'a task, directly': {
    method: 'POST',
    path: '/api/long-running-task',
    type: JSON_TYPE,
    body: '{"task":"wait","data":{"ms":1}}',
  },
  'a task, in the background': {
    method: 'POST',
    path: '/api/long-running-task',
    type: JSON_TYPE,
    body: '{"task":"wait","data":{"ms":1}}',
    headers: { prefer: 'respond-async' },
  },
  'a job': { method: 'POST', path: '/start-job', type: JSON_TYPE, body: '{"ms":1}' },
  'a task with a callback': { method: 'POST', path: '/start-task', type: JSON_TYPE, body: '{"taskData":"x"}' },
  'a record that is made': {
    method: 'POST',
    path: '/api/users',
    type: JSON_TYPE,
    body: JSON.stringify(users(1, `${tag}-post`)[0]),
  },
  'a record that is replaced': {
    method: 'PUT',
    path: '/api/users/3',
    type: JSON_TYPE,
    body: JSON.stringify(users(1, `${tag}-put`)[0]),
  },
  'a patch': {
    method: 'PATCH',
    path: '/api/users/3',
    type: 'application/merge-patch+json',
    body: '{"name":"Patched"}',
  },
  'a bulk': { method: 'POST', path: '/api/users/bulk', type: JSON_TYPE, body: JSON.stringify(users(2, `${tag}-bulk`)) },
  'a bulk that is streamed': {
    method: 'POST',
    path: '/api/users/bulk',
    type: JSON_TYPE,
    body: `${JSON.stringify(users(10, `${tag}-long`))}${' '.repeat(1_200_000)}`,
  },
  'a bulk, in the background': {
    method: 'POST',
    path: '/api/users/bulk',
    type: JSON_TYPE,
    body: JSON.stringify(users(2, `${tag}-later`)),
    headers: { prefer: 'respond-async' },
  },
  'a bulk update': {
    method: 'PATCH',
    path: '/api/users/bulk-update',
    type: JSON_TYPE,
    body: '{"updates":[{"userId":4,"role":"editor"}]}',
  },
  'lines': { method: 'POST', path: '/upload-ndjson', type: NDJSON, body: lines(users(2, `${tag}-lines`)) },
  'coded lines': {
    method: 'POST',
    path: '/upload-ndjson',
    type: NDJSON,
    body: gzipSync(lines(users(2, `${tag}-coded`))),
    headers: { 'content-encoding': 'gzip' },
  },
  'lines, in the background': {
    method: 'POST',
    path: '/upload-ndjson',
    type: NDJSON,
    body: lines(users(2, `${tag}-spooled`)),
    headers: { prefer: 'respond-async' },
  },
})

describe('Content-Digest', () => {
  const client = useReference()
  const send = async ({ method, path, type, body, headers }: Upload, digest: string) => {
    const response = await fetch(client.url + path, {
      method,
      body,
      headers: { 'authorization': 'Bearer writer-1', 'content-type': type, 'content-digest': digest, ...headers },
    })
    return {
      status: response.status,
      json: JSON.parse((await response.text()) || 'null') as { code?: string; summary?: object },
    }
  }

  for (const [name, upload] of Object.entries(uploads('bad'))) {
    test(`gets a 400 digest_mismatch if it is wrong for ${name}`, async () => {
      const { status, json } = await send(upload, digestOf('something else'))
      assert.deepEqual([status, json.code], [400, 'digest_mismatch'])
    })
  }
  for (const [name, upload] of Object.entries(uploads('good'))) {
    test(`is accepted if it is right for ${name}`, async () => {
      const { status } = await send(upload, `${digestOf(upload.body, 'sha-512')}, ${digestOf(upload.body)}`)
      assert.ok(status >= 200 && status < 300, String(status))
    })
  }

  test('is checked before any part of a body is written', async () => {
    const all = await (await client.open('GET', '/bulk-data')).text()
    for (const tag of ['bad-post', 'bad-put', 'bad-bulk', 'bad-later', 'bad-lines', 'bad-coded', 'bad-spooled'])
      assert.ok(!all.includes(`"${tag}-`), tag)
    assert.ok(all.includes('good-lines-1@digest.example'))
  })

  test('is wrong for an upload that was written in part: a 400 lists the written records', async () => {
    const body = lines(users(600, 'part'))
    const { status, json } = await send(
      { method: 'POST', path: '/upload-ndjson', type: NDJSON, body },
      digestOf('other'),
    )
    assert.deepEqual(
      [status, json.code, json.summary],
      [400, 'digest_mismatch', { total: 500, succeeded: 500, failed: 0 }],
    )
  })

  test('is wrong if one of several digests is wrong, and an unknown algorithm is ignored', async () => {
    const job: Upload = { method: 'POST', path: '/start-job', type: JSON_TYPE, body: '{"ms":1}' }
    assert.equal((await send(job, `${digestOf(job.body)}, ${digestOf('x', 'sha-512')}`)).json.code, 'digest_mismatch')
    assert.equal((await send(job, `${digestOf('x')}, ${digestOf(job.body)}`)).status, 202)
    assert.equal((await send(job, `${digestOf(job.body)}, ${digestOf('x')}`)).status, 400)
    assert.equal((await send(job, 'md5=:abcd:, sha=:eA:, sha-256-new="a, sha-256=:x:", unixsum=1')).status, 202)
    assert.equal((await send(job, `${digestOf(job.body)};p=1`)).status, 202)
  })

  test('gets a 400 invalid_header if it is malformed, before anything is read', async () => {
    for (const field of [
      'sha-256',
      'sha-256=abc',
      'sha-256=:abc:',
      'sha-256=::',
      `sha-512=${digestOf('{}').slice(8)}`,
      'sha-256=":x:"',
    ]) {
      const { status, json } = await send({ method: 'POST', path: '/start-job', type: JSON_TYPE, body: '{}' }, field)
      assert.deepEqual([field, status, json.code], [field, 400, 'invalid_header'])
    }
  })
})

describe('Content-Digest in the bindings', () => {
  const made: object[] = []
  const handlers: Record<string, Handler> = {
    'application/json': collection({
      repository: {
        create: (draft: object) => {
          made.push(draft)
          return { id: 'a', ...draft }
        },
      },
      schema: { '~standard': { version: 1, vendor: 'x', validate: (value: unknown) => ({ value: value as object }) } },
    }),
    'application/x-ndjson': ndjsonUpload({
      write: (records) => {
        made.push(...records)
      },
    }),
  }

  test('is checked by the fetch binding, for a body that is read as a whole and for a stream', async () => {
    for (const [type, handler] of Object.entries(handlers)) {
      const handle = toFetch(handler)
      const ask = (digest: string, headers: Record<string, string> = {}) =>
        handle(
          new Request('http://x/', {
            method: 'POST',
            body: '{"a":1}\n',
            headers: { 'content-type': type, 'content-digest': digest, ...headers },
          }),
        )
      for (const headers of [{}, { 'content-length': '8' }]) {
        assert.equal((await ask(digestOf('other'), headers)).status, 400)
        assert.deepEqual(made, [])
        assert.ok((await ask(digestOf('{"a":1}\n'), headers)).ok)
        assert.equal(made.splice(0).length, 1)
      }
    }
  })

  test('is checked for a stream of the bytes that express.raw left, but not if express.raw has decompressed them', async (t) => {
    const written: object[] = []
    const app = express()
    app.use(express.raw({ type: () => true }))
    app.post(
      '/lines',
      toNode(
        ndjsonUpload({
          write: (records) => {
            written.push(...records)
          },
        }),
      ),
    )
    app.post(
      '/bulk',
      toNode(
        bulkCreate({
          repository: {
            create: (draft: object) => {
              written.push(draft)
              return { id: 1 }
            },
          },
          streamAboveBytes: 0,
        }),
      ),
    )
    const server = app.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.after(() => {
      server.close()
      server.closeAllConnections()
    })
    const { port } = server.address() as AddressInfo
    for (const [path, type, body] of [
      ['lines', NDJSON, '{"a":1}\n'],
      ['bulk', JSON_TYPE, '[{"a":1}]'],
    ] as const) {
      const ask = async (digest: string, sent: string | Buffer, headers: Record<string, string> = {}) => {
        const { status } = await fetch(`http://127.0.0.1:${port}/${path}`, {
          method: 'POST',
          body: sent,
          headers: { 'content-type': type, 'content-digest': digest, ...headers },
        })
        return status
      }
      assert.equal(await ask(digestOf('x'), body), 400)
      assert.ok((await ask(digestOf(body), body)) < 300)
      assert.ok((await ask(digestOf('x'), gzipSync(body), { 'content-encoding': 'gzip' })) < 300)
    }
    assert.equal(written.length, 4)
  })

  test('is checked before any item of a bulk is written', async () => {
    for (const atomic of [true, false]) {
      const calls: string[] = []
      const table = {
        createMany: (drafts: readonly object[]) => {
          calls.push('write')
          return drafts.map((_, id) => ({ id }))
        },
      }
      const transaction = <R>(work: (inside: typeof table) => Promise<R>): Promise<R> => {
        calls.push('begin')
        return work(table)
      }
      const handle = toFetch(bulkCreate({ repository: { ...table, transaction }, atomic, streamAboveBytes: 0 }))
      const body = JSON.stringify(users(10_000, 'atomic'))
      const response = await handle(
        new Request('http://x/', {
          method: 'POST',
          body,
          headers: { 'content-type': JSON_TYPE, 'content-digest': digestOf('other') },
        }),
      )
      const { code, summary } = await response.json() as { code: string, summary?: object }
      assert.deepEqual([response.status, code, summary, calls], [400, 'digest_mismatch', undefined, []])
    }
  })

  test("is checked if the framework's parser kept the sent bytes, but not if it decompressed them", async () => {
    const value = Buffer.from('{"a":1}')
    const read = async (
      work: typeof readJson | typeof readBytes,
      digest: string,
      headers: Record<string, string> = {},
    ): Promise<string> => {
      try {
        await work(
          fakeRequest({
            headers: { 'content-type': 'application/json', 'content-digest': digest, ...headers },
            parsed: { value },
          }),
          { maxBodyBytes: 100 },
        )
        return 'read'
      } catch (error) {
        return isHttpError(error) ? error.code : String(error)
      }
    }
    for (const work of [readJson, readBytes]) {
      assert.equal(await read(work, digestOf(value)), 'read')
      assert.equal(await read(work, digestOf('x')), 'digest_mismatch')
      assert.equal(await read(work, digestOf('x'), { 'content-encoding': 'gzip' }), 'read')
    }
  })
})
