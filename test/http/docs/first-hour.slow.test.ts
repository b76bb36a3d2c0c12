// The files that a new user pastes first, into an empty folder, with the commands of README.md and the packed tarball.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { build } from 'tsup'
import { nodeBuilds } from '../../../tsup.config.js'
import { postgresUrl } from '../../servers/postgres-url.js'
import { blocks, section } from '../kit/doc-page.js'
import { pasted, type Files } from '../kit/pasted.js'
import { root, ServerProcess, stopAfterwards } from '../kit/process.js'
import { Client } from '../kit/reference.js'

const run = promisify(execFile)
const read = (page: string) => readFileSync(join(root, page), 'utf8')

const top = mkdtempSync(join(tmpdir(), 'longhaul-first-hour-'))
/** Where README.md puts the clone, and the project beside it. */
const clone = join(top, 'longhaul')
const project = join(top, 'project')
after(() => { rmSync(top, { recursive: true, force: true }) })
stopAfterwards()

/** Runs commands of a page in the project, as somebody pastes them. */
async function shell(commands: string): Promise<void> {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const quick = { npm_config_prefer_offline: 'true', npm_config_audit: 'false', npm_config_fund: 'false' }
  await run('sh', ['-e', '-c', commands], { cwd: project, env: { ...env, ...quick } })
}

before(async () => {
  mkdirSync(project)
  for (const path of ['package.json', 'README.md', 'LICENSE']) cpSync(join(root, path), join(clone, path))
  // What Node loads. The other builds are for bundlers and compilers, and take minutes.
  for (const options of nodeBuilds)
    await build({ ...options, config: false, silent: true, outDir: join(clone, options.outDir ?? '') })
  await run('npm', ['pack', '--ignore-scripts', '--silent'], { cwd: clone })
  const [, installs = ''] = blocks(section(read('README.md'), 'Install'), 'sh')
  assert.match(installs, /^npm install \S+ express zod\n/)
  await shell(installs)
})

/** The port of the pages, and what starts the same server on a free port and prints its address. */
const PORTS = [
  ['.listen(3000)', `.listen(0, '127.0.0.1', function () {
    console.log('Ready at http://127.0.0.1:' + this.address().port)
  })`],
  ['.listen({ port: 3000 })', `.listen({ port: 0, host: '127.0.0.1' }, (_, address) => {
    console.log('Ready at ' + address)
  })`],
] as const

/** Writes the files into the project, and starts one of them as the pages say. */
async function start(files: Files, name: string, env: Record<string, string> = {}): Promise<ServerProcess> {
  for (const [file, text] of files) {
    writeFileSync(join(project, file), PORTS.reduce((code, [from, to]) => code.replace(from, to), text))
  }
  return new ServerProcess('sh', ['-c', `cd ${project} && exec npx tsx ${name}`], env)
}

const accept = { body: { year: 2026 }, headers: { prefer: 'respond-async' } }

/** Sends the requests that the pages show. */
async function use(client: Client): Promise<void> {
  const accepted = await client.ask('POST', '/reports', accept)
  assert.equal(accepted.status, 202)
  const path = accepted.headers.get('location') ?? ''
  const { json: ended } = await client.ask('GET', path, { headers: { prefer: 'wait=20' } })
  assert.equal(ended.status, 'completed')
  assert.ok(ended.result.months?.length === 12 || ended.result.message === 'The report of 2026 is ready.')

  const { status, json } = await client.ask('POST', '/reports', { body: { year: 'this' } })
  assert.deepEqual([status, json.code, json.details[0].pointer], [400, 'invalid_input', '/year'])
}

async function works(files: Files, name: string, env: Record<string, string> = {}): Promise<void> {
  const server = await start(files, name, env)
  await use(new Client(await server.url()))
  process.kill(-(server.child.pid ?? 0), 'SIGKILL')
  await server.exited
  assert.equal(server.err, '')
}

/** Kills the server while it works, and starts it again: the task has to complete. */
async function outlives(files: Files, name: string, env: Record<string, string> = {}): Promise<void> {
  const first = await start(files, name, env)
  const { headers } = await new Client(await first.url()).ask('POST', '/reports', accept)
  process.kill(-(first.child.pid ?? 0), 'SIGKILL')
  await first.exited
  const second = await start(files, name, env)
  const client = new Client(await second.url())
  // Its run begins again when the lease of the first one has ended, after 15 s.
  const path = headers.get('location') ?? ''
  let { json } = await client.ended(path)
  while (json.status === 'processing') ({ json } = await client.ended(path))
  assert.equal(json.status, 'completed')
  process.kill(-(second.child.pid ?? 0), 'SIGKILL')
  await second.exited
  assert.equal(second.err, '')
}

describe('README.md pasted into an empty folder', () => {
  const [server, durable] = pasted(read('README.md'))

  test('serves reports', async () => { await works(server ?? new Map(), 'server.ts') })

  test('keeps its tasks in SQLite through a kill', async () => {
    const files = new Map(durable)
    let env: Record<string, string> = { NODE_OPTIONS: '--disable-warning=ExperimentalWarning' }
    if (!process.getBuiltinModule?.('node:sqlite')) {
      const [, install = '', libsql = ''] =
        /run `(npm install libsql)`, and write `(import [^`]+)`/.exec(read('README.md')) ?? []
      await shell(install)
      files.set('server.ts', (files.get('server.ts') ?? '').replace(/^import .* from 'node:sqlite'$/m, libsql))
      env = {}
    }
    await outlives(files, 'server.ts', env)
  })
})

describe('Getting started pasted into an empty folder', () => {
  const page = read('docs/guide/getting-started.md')
  const [, mounted, owned, durable] = pasted(page)

  test('serves reports after step 2', async () => { await works(mounted ?? new Map(), 'server.ts') })

  test('serves reports of an owner after step 4', async () => { await works(owned ?? new Map(), 'server.ts') })

  test('keeps its tasks in PostgreSQL through a kill after step 5', async () => {
    const url = await postgresUrl()
    await shell(blocks(section(page, '5. Keep tasks across a crash'), 'sh').join(''))
    await outlives(durable ?? new Map(), 'server.ts', { DATABASE_URL: url })
  })
})

describe('The servers of docs/guide/embedding.md pasted into the folder', () => {
  const files = pasted(read('docs/guide/embedding.md')).at(-1) ?? new Map<string, string>()

  test('serve reports with node:http', async () => { await works(files, 'http-server.ts') })

  test('serve reports with Fastify', async () => {
    await shell('npm install fastify')
    await works(files, 'fastify-server.ts')
  })
})
