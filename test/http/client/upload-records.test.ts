// `upload` of the client with `resumable`, over connections that break.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { createClient } from 'longhaul/client'
import { ndjsonUpload } from 'longhaul/ndjson'
import { CuttingProxy, open } from '../kit/uploads.js'

const COUNT = 12_000
const records = Array.from({ length: COUNT }, (_, id) => ({ id, text: 'x'.repeat(180) }))

async function start(t: TestContext, cuts: number[]) {
  const written: number[] = []
  const handler = ndjsonUpload<{ id: number }>({
    write: (batch) => { written.push(...batch.map(({ id }) => id)) },
  })
  const { port, close } = await open({}, handler)
  const proxy = await CuttingProxy.to(port, cuts)
  t.after(() => {
    proxy.close()
    return close()
  })
  const retry = { baseMs: 1, maxMs: 20, attempts: 20 }
  return { written, proxy, client: createClient({ baseUrl: `http://127.0.0.1:${proxy.port}`, retry }) }
}

describe('client.upload with resumable', () => {
  const sources = {
    'an array': () => records,
    'a function': () => () => records,
    'a Blob': () => new Blob([`${records.map((record) => JSON.stringify(record)).join('\n')}\n`]),
    'a generator that can be read once': () => records.values() as unknown as Iterable<object>,
  }
  for (const [name, source] of Object.entries(sources)) {
    test(`${name}: each record is written once, and the report covers all records`, async (t) => {
      const { written, proxy, client } = await start(t, [1_900_000, 1000, 700_000])
      const { summary } = await client.upload('/api/files', source(), { resumable: true })
      assert.deepEqual(summary, { total: COUNT, succeeded: COUNT, failed: 0 })
      assert.ok(proxy.cuts >= 2, String(proxy.cuts))
      assert.deepEqual(written, records.map(({ id }) => id))
    })
  }

  test('rejects with the error of the source', async (t) => {
    const { written, client } = await start(t, [])
    const error = new Error('the cursor broke')
    await assert.rejects(
      client.upload(
        '/api/files',
        (function* () {
          yield {}
          throw error
        })(),
        { resumable: true },
      ),
      error,
    )
    assert.equal(written.length, 0)
  })
})
