// examples/mcp, as its reader starts it: the official client calls the tool, answers its question,
// and prints the result.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ServerProcess, stopAfterwards } from '../kit/process.js'
import { program } from '../../servers/program.js'

stopAfterwards()

test('The client of examples/mcp follows its task to the result', async () => {
  const server = new ServerProcess(process.execPath, program('examples/mcp/main.ts'), { PORT: '0', MONTH_MS: '20' })
  const [url = ''] = await server.said(/http:\/\/127\.0\.0\.1:\d+\/mcp/)
  const client = new ServerProcess(process.execPath, [...program('examples/mcp/client.ts'), url], {})
  const [, result = ''] = await client.said(/^(\{.*\})$/m)
  assert.deepEqual(JSON.parse(result), {
    resultType: 'complete', content: [{ type: 'text', text: '{"year":2026,"months":12,"isPublished":true}' }],
    structuredContent: { year: 2026, months: 12, isPublished: true },
  })
  assert.match(client.out, /The report of 2026 is written. Publish it\? yes/)
})
