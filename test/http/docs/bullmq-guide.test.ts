// The application of docs/guide/bullmq.md: workers of BullMQ 5, and the web process in front of their queue.
import assert from 'node:assert/strict'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { build } from 'esbuild'
import { redisForFile } from '../../servers/redis-server.js'
import { blocks } from '../kit/doc-page.js'
import { root, ServerProcess, stopAfterwards } from '../kit/process.js'
import { projectFolder } from '../kit/project-folder.js'
import { Client } from '../kit/reference.js'

stopAfterwards()
const redis = await redisForFile()

describe('the application of docs/guide/bullmq.md', () => {
  let folder: string
  before(async () => { folder = await projectFolder('bullmq-guide') })
  after(async () => { await rm(folder, { recursive: true, force: true }) })

  /** What a run of the tests has in place of what the page has. */
  const replaced = [
    ["from 'bullmq'", "from 'bullmq5'"],
    ["{ host: '127.0.0.1' }", `{ host: '127.0.0.1', port: ${String(redis.port)} }`],
    ["import { DatabaseSync } from 'node:sqlite'", "import DatabaseSync from 'libsql'"],
    ['app.listen(3000)', `app.listen(0, '127.0.0.1', function () {
      console.log('Ready at http://127.0.0.1:' + this.address().port)
    })`],
  ] as const

  async function start(name: string, text: RegExp): Promise<ServerProcess> {
    const page = await readFile(join(root, 'docs/guide/bullmq.md'), 'utf8')
    const snippet = blocks(page, 'ts').find((each) => text.test(each))
    assert.ok(snippet !== undefined)
    const [entry, outfile] = [join(folder, `${name}.ts`), join(folder, `${name}.mjs`)]
    await writeFile(
      entry,
      replaced.reduce(
        (code, [from, to]) => code.replace(from, to),
        snippet.replace("'data.db'", `'${folder}/data.db'`),
      ),
    )
    await build({
      entryPoints: [entry], outfile, bundle: true, format: 'esm', platform: 'node', packages: 'external',
      tsconfig: join(root, 'tsconfig.json'), logLevel: 'silent',
    })
    return new ServerProcess(process.execPath, [outfile], {})
  }

  test('a client gets a 202, the progress and the result, and another user a 404', async () => {
    const web = await start('web', /bullmqTask/)
    const client = new Client(await web.url())
    const ann = { 'x-user': 'ann' }
    const accepted = await client.ask('POST', '/reports', {
      body: { year: 2025 },
      headers: { ...ann, prefer: 'respond-async' },
    })
    assert.equal(accepted.status, 202)
    const path = accepted.headers.get('location') ?? ''
    assert.notEqual((await client.ask('GET', path, { headers: ann })).json.status, 'completed')
    const worker = await start('worker', /new Worker\('reports'/)
    const { json } = await client.ask('GET', path, { headers: { ...ann, prefer: 'wait=20' } })
    assert.deepEqual(
      [json.status, json.result, json.progress],
      ['completed', { file: 'report-2025.pdf' }, { done: 12, total: 12, unit: 'months' }],
    )
    assert.equal((await client.ask('GET', path, { headers: { 'x-user': 'bob' } })).status, 404)
    web.child.kill('SIGTERM')
    assert.deepEqual(await web.exited, { code: 0, signal: null }, web.err)
    worker.child.kill('SIGKILL')
    await worker.exited
  })
})
