import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { DEMO_TOKENS } from '../../../examples/reference-server/config.js'
import { startServer, type RunningServer } from '../../../examples/reference-server/server.js'
import { blocks, section } from '../kit/doc-page.js'
import { root } from '../kit/process.js'

const page = readFileSync(join(root, 'docs/guide/bulk.md'), 'utf8')

let server: RunningServer
before(async () => {
  server = await startServer({ host: '127.0.0.1', port: 0, tokens: parseTokens(DEMO_TOKENS) })
})
after(() => server.stop())

async function run(script: string): Promise<string[]> {
  const shell = spawn('sh', ['-e', '-c', script.replaceAll('http://127.0.0.1:3000', server.url)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NO_PROXY: '127.0.0.1' },
  })
  let text = ''
  shell.stdout.on('data', (chunk) => { text += String(chunk) })
  const [code] = await once(shell, 'close') as [number | null]
  assert.equal(code, 0, 'The commands of docs/guide/bulk.md need curl, sed and tr')
  return text.trimEnd().split('\n')
}

test('SPEC 4.3, 4.4: the commands of docs/guide/bulk.md have the described effects', async () => {
  const commands = blocks(section(page, 'Try it'), 'sh')
  assert.equal(commands.length, 5)
  const [created, updated, lenient, trimmed, background] = commands as [string, string, string, string, string]

  const [report = '', status] = await run(created)
  const [shown = ''] = blocks(section(page, 'Try it'), 'json')
  const withoutId = (text: string): unknown =>
    JSON.parse(text, (key, value: unknown) => (key === 'id' ? typeof value : value))
  assert.equal(status, '207')
  assert.deepEqual(withoutId(report), withoutId(shown))

  const [refused = '', refusal] = await run(updated)
  assert.equal(refusal, '422')
  assert.deepEqual(
    (JSON.parse(refused) as { items: { status: number }[] }).items.map((item) => item.status),
    [424, 404],
  )

  const [partial = '', partialStatus] = await run(lenient)
  assert.equal(partialStatus, '207')
  assert.deepEqual(
    (JSON.parse(partial) as { items: { status: number }[] }).items.map((item) => item.status),
    [200, 404],
  )

  const [failed = ''] = await run(trimmed)
  assert.deepEqual((JSON.parse(failed) as { items: { index: number }[] }).items.map(({ index }) => index), [1])

  const [task = '', item = ''] = await run(background)
  assert.equal((JSON.parse(task) as { status: string }).status, 'completed')
  assert.equal((JSON.parse(item) as { index: number }).index, 1)
})
