// A CSV file of a spreadsheet as the body of a resumable upload, in chunks and over connections that break.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { describe, test, type TestContext } from 'node:test'
import { createClient } from 'longhaul/client'
import { csv } from 'longhaul/csv'
import { createTasks, jsonSchema, router, taskEndpoints, type HttpRequest } from 'longhaul'
import { memory } from 'longhaul/memory'
import { ndjsonUpload, type UploadResult } from 'longhaul/ndjson'
import { toNode } from 'longhaul/node'
import { resumableUpload } from 'longhaul/uploads'
import { listen } from '../../kit/listen.js'
import { CuttingProxy } from '../kit/uploads.js'

const ROWS = 3000
const PARTIAL = 'application/partial-upload'
/** The number of the row in which a record is, as a spreadsheet shows it: the header is row 1. */
const rowOf = (n: number): number => n + 2

function rowText(n: number): string {
  if (n % 500 === 7) return `${n}` // too few cells
  if (n % 500 === 11) return `${n};12" lang;x` // a quote within a cell
  if (n % 500 === 13) return '007;Ann;x' // no number without a change
  return `${n};"Zoë ""${n}""\r\nMüller; Köln";ä€😀`
}

const isBad = (n: number): boolean => [7, 11, 13].includes(n % 500)
const numbers = Array.from({ length: ROWS }, (_, n) => n)
const file = Buffer.from(`\ufeffid;Name;Notiz\r\n${numbers.map((n) => `${rowText(n)}\r\n`).join('')}`)
const badRows = numbers.filter(isBad).map(rowOf)
const records = numbers.filter((n) => !isBad(n)).map((n) => (
  { id: n, name: `Zoë "${n}"\r\nMüller; Köln`, note: 'ä€😀' }
))

/** Serves uploads of CSV whose task has a file of rejected rows. */
async function start(t: TestContext) {
  const { blobs, ...storage } = memory()
  const written: object[] = []
  const types: unknown[] = []
  const rows = ndjsonUpload<object>({
    source: csv({ columns: {
      id: { type: 'integer' }, Name: { property: 'name' }, Notiz: { property: 'note' },
    } }),
    schema: jsonSchema<object>({ type: 'object', required: ['id'] }),
    maxLines: 10_000,
    write: (batch) => { written.push(...batch) },
    background: { name: 'rows', blobs, rejectedFile: true },
  })
  const tasks = createTasks({ ...storage, blobs, definitions: [rows.task] })
  const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
  const handle = rows.handler(endpoints)
  const uploads = resumableUpload((request: HttpRequest) => {
    types.push(request.headers['content-type'])
    return handle(request)
  }, { store: storage.store, blobs, owner: 'anyone', uploadPath: '/uploads/{id}', partBytes: 32_768 })
  const server = createServer(toNode(router({
    'POST|OPTIONS /rows': uploads.create,
    'GET|HEAD|PATCH|DELETE|OPTIONS /uploads/{id}': uploads.resource,
    'GET|HEAD|DELETE /tasks/{id}': endpoints.status,
    'GET|HEAD /tasks/{id}/files/{name}': endpoints.files,
  })))
  const { url, port, close } = await listen(server)
  t.after(async () => {
    await close()
    await tasks.close()
  })
  return { url, port, written, types, tasks }
}

function checkReport({ summary, items }: UploadResult): void {
  assert.deepEqual(summary, { total: ROWS, succeeded: records.length, failed: badRows.length })
  assert.deepEqual(items.map(({ line }) => line), badRows)
  assert.deepEqual(items.slice(0, 3).map(({ error }) => error?.code), ['cells_missing', 'row_malformed', 'cell_invalid'])
}

/** The rejected rows, without their errors. */
async function rejectedRows(url: string, taskId: string): Promise<string[]> {
  const response = await fetch(`${url}/tasks/${taskId}/files/rejected.csv`)
  assert.match(response.headers.get('content-type') ?? '', /^text\/csv/)
  const bytes = Buffer.from(await response.arrayBuffer())
  assert.deepEqual([...bytes.subarray(0, 3)], [0xef, 0xbb, 0xbf], 'Excel needs the byte order mark')
  const [header, ...rows] = bytes.toString().trimEnd().split('\r\n')
  assert.equal(header, '\ufeffid;Name;Notiz;_error')
  return rows.map((row) => row.split(';').slice(0, 3).join(';'))
}

/** Uploads in the background with `longhaul/client`. */
async function sendByClient(base: string, content: Blob | AsyncIterable<Uint8Array>, chunkBytes: number) {
  const api = createClient({ baseUrl: base, retry: { baseMs: 1, maxMs: 20 } })
  const sending = api.uploadFile<UploadResult>('/rows', content, { background: true, type: 'text/csv', chunkBytes })
  const task = await sending.task()
  return { taskId: task.taskId ?? '', result: await task.result() }
}

describe('a CSV file in a resumable upload', () => {
  const rejected = badRows.map((row) => {
    const n = row - 2
    if (n % 500 === 7) return `${n};;`
    return n % 500 === 11 ? `"${n};12"" lang;x"` : '007;Ann;x'
  })

  test('becomes a task over connections that break: every row is written once, under its number', async (t) => {
    const { url, port, written, types } = await start(t)
    const proxy = await CuttingProxy.to(port, [600, 40_000, 900, 25_000, 70_001])
    t.after(() => { proxy.close() })
    const { taskId, result } = await sendByClient(`http://127.0.0.1:${proxy.port}`, new Blob([file]), 60_000)
    assert.equal(proxy.cuts, 5)
    assert.deepEqual(types, ['text/csv'])
    assert.deepEqual(written, records)
    checkReport(result)
    const rows = await rejectedRows(url, taskId)
    assert.deepEqual(rows.map((row) => row.replace(/;;.*/, ';;')), rejected.map((row) => row.replace(/;;.*/, ';;')))
  })

  test('may be cut at any byte: within the byte order mark, a letter, a quote and a line end', async (t) => {
    const { url, written } = await start(t)
    const letter = file.indexOf(Buffer.from('ë')) + 1
    const quote = file.indexOf('""') + 1
    const end = file.indexOf('\r\n', quote) + 1
    const cuts = [1, 2, letter, quote, end, file.length - 1]
    const created = await fetch(`${url}/rows`, {
      method: 'POST', body: file.subarray(0, 1),
      headers: { 'content-type': 'text/csv; charset=utf-8', 'upload-complete': '?0', 'prefer': 'respond-async' },
    })
    assert.equal(created.status, 201)
    const upload = new URL(created.headers.get('location') ?? '', url)
    let last: Response | undefined
    for (const [index, from] of cuts.entries()) {
      const to = cuts[index + 1] ?? file.length
      last = await fetch(upload, {
        method: 'PATCH', body: file.subarray(from, to),
        headers: {
          'content-type': PARTIAL, 'upload-offset': String(from), 'upload-complete': to === file.length ? '?1' : '?0',
        },
      })
      assert.equal(last.status, to === file.length ? 202 : 204)
    }
    const { taskId } = await last?.json() as { taskId: string }
    const status = await (await fetch(`${url}/tasks/${taskId}`, { headers: { prefer: 'wait=30' } })).json()
    checkReport((status as { result: UploadResult }).result)
    assert.deepEqual(written, records)
  })

  test('has the report in the response to its last chunk, without a task', async (t) => {
    const { url, written } = await start(t)
    const api = createClient({ baseUrl: url })
    const sending = api.uploadFile<UploadResult>('/rows', new Blob([file], { type: 'text/csv' }), { chunkBytes: 50_000 })
    checkReport(await sending.result())
    assert.deepEqual(written, records)
  })

  test('gets the 415 of its media type, and the 400 of its header row', async (t) => {
    const { url, written } = await start(t)
    const api = createClient({ baseUrl: url })
    const send = (text: string, type: string) => api.uploadFile('/rows', new Blob([text], { type }), { chunkBytes: 4 })
    await assert.rejects(send('id;Name;Notiz\n1;a;b\n', 'application/json').result(), { status: 415 })
    await assert.rejects(send('id;Name\n1;a\n', 'text/csv').result(), { status: 400, code: 'csv_header_invalid' })
    assert.deepEqual(written, [])
  })
})
