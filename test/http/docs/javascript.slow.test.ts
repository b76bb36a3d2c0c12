// The guide to plain JavaScript: its server runs as it stands, and its types are checked.
import assert from 'node:assert/strict'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { build } from 'esbuild'
import { compile } from '../kit/compile.js'
import { blocks } from '../kit/doc-page.js'
import { root, ServerProcess, stopAfterwards } from '../kit/process.js'
import { projectFolder } from '../kit/project-folder.js'
import { Client } from '../kit/reference.js'

const page = await readFile(join(root, 'docs/guide/javascript.md'), 'utf8')
const [server = '', types = ''] = blocks(page, 'js')

/** Node 22 and 24 warn that their SQLite is new. */
const QUIET = { NODE_OPTIONS: '--disable-warning=ExperimentalWarning' }

let folder: string
before(async () => {
  folder = await projectFolder('javascript')
})
after(async () => { await rm(folder, { recursive: true, force: true }) })
stopAfterwards()

/**
 * Builds the server as CommonJS, on a free port and with its data in the folder. On Node 20 with
 * libsql, as the guide says.
 */
async function built(): Promise<string> {
  const [, libsql = ''] = /`(const DatabaseSync = require\('libsql'\))`/.exec(page) ?? []
  assert.notEqual(libsql, '')
  const source = join(folder, 'source.cjs')
  const outfile = join(folder, 'server.cjs')
  await writeFile(source, server
    .replace("'./data.db'", JSON.stringify(join(folder, 'data.db')))
    .replace(/const .* = require\('node:sqlite'\)/, (line) => process.getBuiltinModule?.('node:sqlite') ? line : libsql)
    .replace('server.listen(3000)', `server.listen(0, '127.0.0.1', function () {
      console.log('Ready at http://127.0.0.1:' + this.address().port)
    })`))
  await build({
    entryPoints: [source], outfile, bundle: true, format: 'cjs', platform: 'node', packages: 'external',
    tsconfig: join(root, 'tsconfig.json'), logLevel: 'silent',
  })
  return outfile
}

describe('the guide to plain JavaScript', () => {
  test('a task of its server outlives a kill, and SIGTERM ends the server', async () => {
    const file = await built()
    const headers = { 'authorization': 'Bearer ann', 'prefer': 'respond-async', 'idempotency-key': 'one' }
    const first = new ServerProcess(process.execPath, [file], QUIET)
    const accepted = await new Client(await first.url()).ask('POST', '/reports', { body: { year: 2026 }, headers })
    assert.equal(accepted.status, 202)
    first.child.kill('SIGKILL')
    await first.exited

    const second = new ServerProcess(process.execPath, [file], QUIET)
    const client = new Client(await second.url())
    const path = accepted.headers.get('location') ?? ''
    const { json } = await client.ask('GET', path, { headers: { authorization: 'Bearer ann', prefer: 'wait=30' } })
    assert.deepEqual([json.status, json.result.message], ['completed', 'The report of 2026 is ready.'])
    assert.equal((await client.ask('GET', path)).status, 401)
    second.child.kill('SIGTERM')
    assert.deepEqual(await second.exited, { code: 0, signal: null })
    assert.equal(second.err, '')
  })

  test('its types are inferred and checked', () => {
    const wrong = types
      .replace('submit(yearly, { year: 2026 })', 'submit(yearly, { yeer: 2026 })')
      .replace('emit(\'Hello\')', 'emit(1)')
    const problems = compile(new Map([['server.cjs', server], ['types.cjs', types], ['wrong.cjs', wrong]]))
    assert.deepEqual(Object.keys(problems), ['wrong.cjs'], JSON.stringify(problems))
    assert.equal(problems['wrong.cjs']?.length, 2, JSON.stringify(problems))
  })
})
