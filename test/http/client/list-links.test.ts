import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, test } from 'node:test'
import { attach } from '../../../adapters/node/index.js'
import { list } from '../../../src/resources/index.js'
import { listen } from '../../kit/listen.js'

const server = createServer()
attach(
  server,
  list({
    repository: {
      list: ({ start, limit }) => ({
        items: Array.from({ length: limit }, (_, n) => ({ id: start + n })),
        total: 1000,
      }),
    },
  }),
)
const { url: origin, close } = await listen(server)
after(close)

test('fetch of Node, which accepts 16 KiB of headers, gets a list whose query has 8 kB', async () => {
  const answer = await fetch(`${origin}/?start=200&filter=${'x'.repeat(8000)}`)
  const { next } = await answer.json() as { next: string }
  assert.deepEqual([answer.status, answer.headers.get('link')], [200, null])
  const following = await fetch(`${origin}${next}`)
  const { items } = await following.json() as { items: { id: number }[] }
  assert.equal(items[0]?.id, 300)
})
