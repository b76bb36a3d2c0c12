import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { describe, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { bulkCreate } from '../../../src/bulk/create.js'
import { Gathered } from '../../../src/runtime/text.js'
import { NodeBody } from '../../../adapters/node/body.js'
import { fakeRequest } from '../kit/request.js'

test('a byte buffer has the added bytes, for any division into chunks', () => {
  fc.assert(fc.property(fc.array(fc.uint8Array({ maxLength: 9000 }), { maxLength: 8 }), (pieces) => {
    const gathered = new Gathered()
    for (const piece of pieces) {
      gathered.add(piece)
      piece.fill(0)
    }
    assert.equal(gathered.size, pieces.reduce((sum, { length }) => sum + length, 0))
    assert.equal(gathered.bytes.length, gathered.size)
  }))
  const gathered = new Gathered()
  for (const text of ['', 'one ', 'two ', 'x'.repeat(5000)]) gathered.add(Buffer.from(text))
  assert.equal(Buffer.from(gathered.bytes).toString(), `one two ${'x'.repeat(5000)}`)
})

setFlagsFromString('--expose-gc')
const gc = runInNewContext('gc') as () => void

function held(): number {
  gc()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

describe('a body that arrives byte by byte takes at most twice its size', () => {
  const length = 300_000

  test('in node:http, read as a whole', async () => {
    const req = Object.assign(new EventEmitter(), { headers: {}, destroyed: false })
    const reading = new NodeBody(req as never, {} as never, undefined, false).bytes(length)
    const before = held()
    for (let at = 0; at < length; at++) req.emit('data', Buffer.of(at))
    const after = held()
    req.emit('end')
    assert.equal((await reading)?.byteLength, length)
    assert.ok(after - before < 5_000_000, `${after - before} bytes`)
  })

  test('in a bulk request, before it is large enough to be streamed', async () => {
    const items = Array.from({ length: 30_000 }, (_, n) => ({ n }))
    const bytes = Buffer.from(JSON.stringify(items))
    let grown = Infinity
    const stream = async function* () {
      const before = held()
      for (const [at, byte] of bytes.entries()) {
        if (at === length) grown = held() - before
        yield Buffer.of(byte)
      }
    }
    const handler = bulkCreate({
      repository: { createMany: (drafts: readonly object[]) => drafts.map(() => ({})) as never },
      streamAboveBytes: length,
    })
    const fake = fakeRequest({ headers: { 'content-type': 'application/json' } })
    const answer = await handler({ ...fake, body: { ...fake.body, stream } })
    assert.equal(answer?.status, 201)
    assert.ok(grown < 5_000_000, `${grown} bytes`)
  })
})
