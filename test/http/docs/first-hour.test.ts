// The servers that a new user pastes first: from README.md, Getting started and Embedding.
import assert from 'node:assert/strict'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { build } from 'esbuild'
import { blocks } from '../kit/doc-page.js'
import { root, ServerProcess, stopAfterwards } from '../kit/process.js'
import { projectFolder } from '../kit/project-folder.js'
import { Client } from '../kit/reference.js'

/** The port of the page, and what starts the same server on a free port and prints its address. */
const PORTS = [
  ['app.listen(3000)', `app.listen(0, '127.0.0.1', function () {
    console.log('Ready at http://127.0.0.1:' + this.address().port)
  })`],
  ['app.listen({ port: 3000 })', `app.listen({ port: 0, host: '127.0.0.1' }, (_, address) => {
    console.log('Ready at ' + address)
  })`],
] as const

let folder: string
before(async () => {
  folder = await projectFolder('first-hour')
})
after(async () => { await rm(folder, { recursive: true, force: true }) })
stopAfterwards()

/** Starts the server that the named snippets of a page make; the last one listens. */
async function start(page: string, names: readonly string[]): Promise<ServerProcess> {
  const snippets = blocks(await readFile(join(root, page), 'utf8'), 'ts')
  let last = ''
  for (const name of names) {
    const snippet = snippets.find((text) => text.startsWith(`// ${name}\n`))
    assert.ok(snippet !== undefined, `${page} has no snippet that begins with // ${name}`)
    last = join(folder, name)
    await writeFile(last, PORTS.reduce((text, [from, to]) => text.replace(from, to), snippet))
  }
  const outfile = last.replace(/\.ts$/, '.mjs')
  await build({
    entryPoints: [last], outfile, bundle: true, format: 'esm', platform: 'node', packages: 'external',
    tsconfig: join(root, 'tsconfig.json'), logLevel: 'silent',
  })
  return new ServerProcess(process.execPath, [outfile], {})
}

describe('the first servers of the documentation run as they stand', () => {
  for (const [page, names] of [
    ['README.md', ['server.ts']],
    ['docs/guide/getting-started.md', ['report.ts', 'server.ts']],
    ['docs/guide/embedding.md', ['fastify-server.ts']],
  ] as const) {
    test(page, async () => {
      const server = await start(page, names)
      const client = new Client(await server.url())

      const accepted = await client.ask('POST', '/reports', {
        body: { year: 2026 }, headers: { prefer: 'respond-async' },
      })
      assert.equal(accepted.status, 202)
      const path = accepted.headers.get('location') ?? ''
      const { json: ended } = await client.ask('GET', path, { headers: { prefer: 'wait=20' } })
      assert.deepEqual([ended.status, ended.result.message], ['completed', 'The report of 2026 is ready.'])

      const { status, json } = await client.ask('POST', '/reports', { body: { year: 'this' } })
      assert.deepEqual([status, json.code, json.details[0].pointer], [400, 'invalid_input', '/year'])
      server.child.kill('SIGKILL')
      await server.exited
      assert.equal(server.err, '')
    })
  }
})
