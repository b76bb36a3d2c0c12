// Next.js, Lambda and the worker of serverless.md, CPU-bound work, and the numbers of deploy.md.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { after, describe, test } from 'node:test'
import { build } from 'esbuild'
import { postgresUrl } from '../../servers/postgres-url.js'
import { blocks } from '../kit/doc-page.js'
import { pasted } from '../kit/pasted.js'
import { root, ServerProcess, stopAfterwards } from '../kit/process.js'
import { projectFolder } from '../kit/project-folder.js'
import { Client } from '../kit/reference.js'

const read = (page: string) => readFileSync(join(root, 'docs/guide', page), 'utf8')
const folder = await projectFolder('deployment')
after(() => { rmSync(folder, { recursive: true, force: true }) })
stopAfterwards()

/** Writes the files of a page, and bundles the sources of the package into one of them. Returns its path. */
async function bundled(page: string, name: string): Promise<string> {
  for (const [file, text] of pasted(read(page)).at(-1) ?? []) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), text.replace('server.listen(3000)', `server.listen(0, '127.0.0.1', () => {
      console.log('Ready at http://127.0.0.1:' + server.address().port)
    })`))
  }
  const outfile = join(folder, `${name.replaceAll(/\W/g, '-')}.mjs`)
  await build({
    entryPoints: [join(folder, name)], outfile, bundle: true, format: 'esm', platform: 'node', packages: 'external',
    tsconfig: join(root, 'tsconfig.json'), logLevel: 'silent',
  })
  return outfile
}

describe('The functions of serverless.md and their worker', async () => {
  const url = await postgresUrl()
  process.env['DATABASE_URL'] = url
  const parts = globalThis as {
    longhaul?: {
      parts: { tasks: { close(): Promise<void> }; store: { close(): Promise<void> }; pool: { end(): Promise<void> } }
    }
  }
  const worker = new ServerProcess(process.execPath, [await bundled('serverless.md', 'worker.mjs')], {
    DATABASE_URL: url,
  })
  after(async () => {
    worker.child.kill('SIGTERM')
    assert.deepEqual(await worker.exited, { code: 0, signal: null })
    assert.equal(worker.err, '')
  })

  test('a route of Next.js accepts a task, and shows what the worker did', async () => {
    const path = pathToFileURL(await bundled('serverless.md', 'app/api/[...path]/route.js')).href
    const { GET, POST } = await import(path) as Record<'GET' | 'POST', (request: Request) => Promise<Response>>
    const accepted = await POST(new Request('http://next.example/api/reports', {
      method: 'POST', body: '{"year":2026}', headers: { 'content-type': 'application/json', 'prefer': 'respond-async' },
    }))
    const location = accepted.headers.get('location') ?? ''
    assert.match(location, /^\/api\/tasks\//)
    const ended = await GET(new Request(`http://next.example${location}`, { headers: { prefer: 'wait=20' } }))
    assert.equal((await ended.json() as { status: string }).status, 'completed')
    const { tasks, store, pool } = parts.longhaul?.parts ?? assert.fail('the route keeps its tasks for the process')
    await tasks.close()
    await store.close()
    await pool.end()
  })

  test('a Lambda accepts a task, and shows what the worker did', async () => {
    const file = await bundled('serverless.md', 'lambda.mjs')
    // A process of its own, as in Lambda: nothing closes its connections.
    const script = `
      const { handler } = await import(${JSON.stringify(pathToFileURL(file).href)})
      const event = (method, rawPath, headers, body) => ({
        requestContext: { domainName: 'lambda.example', http: { method } }, rawPath, rawQueryString: '', headers, body,
      })
      const accepted = await handler(event('POST', '/reports', { 'content-type': 'application/json', prefer: 'respond-async' }, '{"year":2026}'))
      const ended = await handler(event('GET', accepted.headers.location, { prefer: 'wait=20' }))
      console.log('Lambda:', accepted.statusCode, ended.statusCode, JSON.parse(ended.body).status)
      process.exit()`
    const lambda = new ServerProcess(process.execPath, ['--input-type=module', '-e', script], { DATABASE_URL: url })
    await lambda.said(/Lambda: 202 200 completed\n/)
    await lambda.exited
    assert.equal(lambda.err, '')
  })
})

test('The thread of cpu-bound.md reports progress and its result, and the server responds meanwhile', async () => {
  const server = new ServerProcess(process.execPath, [await bundled('cpu-bound.md', 'server.mjs')], {})
  const client = new Client(await server.url())
  const { headers } = await client.ask('POST', '/primes', {
    body: { limit: 300_000 },
    headers: { prefer: 'respond-async' },
  })
  const { json } = await client.ended(headers.get('location') ?? '')
  assert.deepEqual([json.status, json.result, json.progress.done], ['completed', { found: 25_997 }, 300_000])
  const long = await client.ask('POST', '/primes', {
    body: { limit: 100_000_000 },
    headers: { prefer: 'respond-async' },
  })
  assert.equal((await client.ask('DELETE', long.headers.get('location') ?? '')).json.status, 'cancelled')
  server.child.kill('SIGTERM')
  await server.exited
  assert.equal(server.err, '')
})

test('The grace periods of deploy.md are longer than preStop and timeoutMs', () => {
  const page = read('deploy.md')
  const timeoutMs = Number(/timeoutMs: ([\d_]+)/.exec(page)?.[1]?.replaceAll('_', ''))
  const [yaml = ''] = blocks(page, 'yaml')
  const preStop = Number(/\[sleep, '(\d+)'\]/.exec(yaml)?.[1])
  const least = preStop * 1000 + timeoutMs + 5000
  const waits = [
    Number(/terminationGracePeriodSeconds: (\d+)/.exec(yaml)?.[1]) * 1000,
    Number(/kill_timeout: ([\d_]+)/.exec(page)?.[1]?.replaceAll('_', '')),
    Number(/TimeoutStopSec=(\d+)/.exec(page)?.[1]) * 1000,
    Number(/docker stop -t\s+(\d+)/.exec(page)?.[1]) * 1000,
  ]
  assert.deepEqual(waits.filter((wait) => !(wait >= least)), [])
})
