// A request is read once: its owner, its headers and its body, whatever handler gets it.
import assert from 'node:assert/strict'
import { after, describe, mock, test } from 'node:test'
import { memory } from '../../../../adapters/memory/index.js'
import { bulkCreate } from '../../../../src/bulk/create.js'
import type { Handler, HttpRequest } from '../../../../src/http/exchange.js'
import { ndjsonUpload } from '../../../../src/ndjson/upload.js'
import { defineTask } from '../../../../src/tasks/definition/define.js'
import { taskEndpoints } from '../../../../src/tasks/http/endpoints.js'
import { createTasks } from '../../../../src/tasks/tasks.js'
import { fakeRequest } from '../../kit/request.js'

const parts = memory()
const { blobs } = parts
const bulk = bulkCreate<{ id: number }, { n: number }>({
  repository: { createMany: (items) => items.map(({ n }) => ({ id: n })) }, background: { name: 'bulk', blobs },
})
const ndjson = ndjsonUpload({ write: () => undefined, background: { name: 'ndjson', blobs } })
const plain = defineTask({ name: 'plain', run: () => 1 })
const tasks = createTasks({ ...parts, definitions: [bulk.task, ndjson.task, plain], worker: false, direct: 'request' })
after(async () => {
  await tasks.close({ drainMs: 0 })
  await blobs.close()
  await parts.store.close()
})

let owners = 0
const endpoints = taskEndpoints(tasks, {
  statusPath: '/tasks/{id}',
  owner: () => {
    owners++
    return 'ann'
  },
})
const KINDS: Readonly<Record<string, readonly [handler: Handler, type: string, body: string]>> = {
  'a bulk request': [bulk.handler(endpoints), 'application/json', '[{"n":1},{"n":2}]'],
  'a large bulk request': [bulk.handler(endpoints), 'application/json', `[{"n":1,"text":"${'x'.repeat(100_000)}"}]`],
  'an NDJSON upload': [ndjson.handler(endpoints), 'application/x-ndjson', '{"n":1}\n{"n":2}\n'],
  'a plain submission': [endpoints.submit(plain), 'application/json', '{"n":1}'],
}
let keys = 0

/** Counts the reads of each header. */
function countedHeaders(headers: Readonly<Record<string, string>>) {
  const reads: Record<string, number> = {}
  const counted = new Proxy(headers, {
    get: (of, name) => {
      reads[String(name)] = (reads[String(name)] ?? 0) + 1
      return Reflect.get(of, name) as unknown
    },
  })
  return { counted, reads }
}

for (const [kind, [handler, type, body]] of Object.entries(KINDS)) {
  for (const [way, prefer] of [['synchronous', 'wait=1'], ['in the background', 'respond-async']] as const) {
    for (const hasKey of [false, true]) {
      // Work with a key is a task, and no worker runs it here.
      if (kind === 'a plain submission' && hasKey && way === 'synchronous') continue
      describe(`${kind}, ${way}, ${hasKey ? 'with' : 'without'} a key`, () => {
        test('is read once', async () => {
          const { counted, reads } = countedHeaders({
            'content-type': type, 'content-length': String(body.length), prefer,
            ...hasKey && { 'idempotency-key': `key-${keys++}` },
          })
          const request: HttpRequest = { ...fakeRequest({ body, headers: counted }), method: 'POST', headers: counted }
          owners = 0
          const parse = mock.method(JSON, 'parse')
          let parsed: number
          try {
            const response = await handler(request)
            const expected = way === 'synchronous' ? [200, 201] : [202]
            assert.ok(expected.includes(response?.status ?? 0), String(response?.status))
            parsed = parse.mock.calls.filter(({ arguments: [text] }) => text === body).length
          } finally {
            parse.mock.restore()
          }
          assert.equal(owners, 1, 'owner of the application')
          assert.equal(reads['prefer'], 1, 'Prefer')
          assert.equal(reads['content-encoding'], 1, 'Content-Encoding')
          assert.ok((reads['idempotency-key'] ?? 0) <= 2, 'once to acknowledge the key, once to read it')
          assert.equal(parsed, type === 'application/json' ? 1 : 0, 'the body')
        })
      })
    }
  }
}
