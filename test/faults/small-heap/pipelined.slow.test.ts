import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { describe, test } from 'node:test'
import { SmallProcess } from '../kit/small-process.js'

const MIB = 1 << 20
const BYTES = 63 * 1024
const SEEN = 20

describe('63 KiB of pipelined requests for lists of 2 MB, to a process with a heap of 256 MiB', () => {
  for (const host of ['node:http', 'Express', 'Koa', 'Fastify']) {
    test(`${host} runs the next request when its response can be written`, async () => {
      const server = await SmallProcess.start('pipelined-server.ts', {
        heapMiB: 256,
        env: { LONGHAUL_TEST_HOST: host },
      })
      const requests: string[] = []
      for (let left = BYTES; left > 0;) {
        // The limits tell the responses apart: the n-th has n items.
        const limit = requests.length < SEEN ? requests.length + 1 : 100
        const text = `GET /tasks?limit=${limit} HTTP/1.1\r\nHost: a\r\n\r\n`
        requests.push(text)
        left -= text.length
      }
      assert.ok(requests.length > 1000)
      const client = connect(server.port, '127.0.0.1')
      client.on('error', () => {})
      client.write(requests.join(''))
      const items = await itemsOf(client, SEEN + 5)
      assert.deepEqual(items, [...Array.from({ length: SEEN }, (_, at) => at + 1), 100, 100, 100, 100, 100])
      const { maxRss, written = 0 } = await server.memory()
      assert.ok(written < items.length + 10, `${written} lists were read for ${items.length} responses`)
      assert.ok(maxRss < 400 * MIB, `${Math.round(maxRss / MIB)} MiB`)

      // The requests that still wait are not run once their client has left.
      client.destroy()
      await fetch(`http://127.0.0.1:${server.port}/tasks?limit=1`).then((response) => response.text())
      assert.ok((await server.memory()).written as number < items.length + 12)
      await server.stop()
    })
  }
})

/** Reads so many responses and returns the number of items in each. */
async function itemsOf(client: Socket, count: number): Promise<number[]> {
  const items: number[] = []
  let text = ''
  for await (const chunk of client.iterator({ destroyOnReturn: false })) {
    text += (chunk as Buffer).toString('latin1')
    for (;;) {
      const head = text.indexOf('\r\n\r\n')
      const length = Number(/content-length: (\d+)/i.exec(text.slice(0, head))?.[1])
      if (head < 0 || text.length < head + 4 + length) break
      assert.match(text, /^HTTP\/1\.1 200 /)
      items.push((JSON.parse(text.slice(head + 4, head + 4 + length)) as { items: unknown[] }).items.length)
      text = text.slice(head + 4 + length)
      if (items.length === count) return items
    }
  }
  assert.fail(`closed after ${items.length} responses`)
}
