// The commands of the guide, pasted into a shell beside the reference server. bulk.md, bullmq.md
// and reference-server.md have their own tests.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { DEMO_TOKENS } from '../../../examples/reference-server/config.js'
import { startServer, type RunningServer } from '../../../examples/reference-server/server.js'
import { blocks } from '../kit/doc-page.js'
import { root } from '../kit/process.js'

/** What the commands of a page have to write. */
const EXPECTED: Readonly<Record<string, readonly RegExp[]>> = {
  'files.md': [/repr-digest: sha-256=:(\S+):\r?\n\1\n/i],
  'ndjson.md': [
    /"summary":\{"total":2,"succeeded":1,"failed":1\}/,
    /"line":2,"status":400,"error":\{"code":"line_malformed"/,
    /\{"id":1,"name":"Ann"[^\n]*\}\n\{"id":2,/,
  ],
  'resources.md': [/"items":\[[^]*"start":50,"batch_size":25/, /\n?\[\{"id":|"items":\[\{"id":1,/],
}

let server: RunningServer
const folder = mkdtempSync(join(tmpdir(), 'longhaul-guide-'))
before(async () => {
  server = await startServer({ host: '127.0.0.1', port: 0, tokens: parseTokens(DEMO_TOKENS) })
})
after(async () => {
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
})

async function paste(script: string): Promise<string> {
  const shell = spawn('sh', ['-e', '-c', script.replaceAll('http://127.0.0.1:3000', server.url)], {
    cwd: folder, stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, NO_PROXY: '127.0.0.1' },
  })
  let text = ''
  let complaints = ''
  shell.stdout.on('data', (chunk) => { text += String(chunk) })
  shell.stderr.on('data', (chunk) => { complaints += String(chunk) })
  const [code] = await once(shell, 'close') as [number | null]
  assert.equal(code, 0, text + complaints)
  return text
}

describe('the commands of the guide', () => {
  const pages = readdirSync(join(root, 'docs/guide'))
    .filter((name) => !['bulk.md', 'bullmq.md', 'reference-server.md'].includes(name))
    .map(
      (name) =>
        [
          name,
          blocks(readFileSync(join(root, 'docs/guide', name), 'utf8'), 'sh').filter((block) => block.includes('curl')),
        ] as const,
    )
    .filter(([, commands]) => commands.length > 0)

  for (const [name, commands] of pages) {
    test(`work in ${name}`, async () => {
      const text = await paste(commands.join(''))
      assert.doesNotMatch(text, /"code":"(?:unauthorized|forbidden|not_found|internal_error)"/)
      for (const each of EXPECTED[name] ?? assert.fail(`say in this file what the commands of ${name} write`))
        assert.match(text, each)
    })
  }
  test('exist', () => { assert.ok(pages.length >= 2) })
})
