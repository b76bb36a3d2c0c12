import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parseTokens } from '../../../examples/reference-server/auth.js'
import { DEMO_TOKENS } from '../../../examples/reference-server/config.js'
import { startServer, type RunningServer } from '../../../examples/reference-server/server.js'
import { blocks, section } from '../kit/doc-page.js'
import { root } from '../kit/process.js'

const readme = readFileSync(join(root, 'README.md'), 'utf8')
const reference = readFileSync(join(root, 'docs/guide/reference-server.md'), 'utf8')

let server: RunningServer
before(async () => {
  server = await startServer({ host: '127.0.0.1', port: 0, tokens: parseTokens(DEMO_TOKENS) })
})
after(() => server.stop())

/** The blocks in one shell, as somebody pastes them; what each wrote. */
async function paste(script: readonly string[]): Promise<string[]> {
  const curl = (process.env['PATH'] ?? '').split(delimiter).some((folder) => existsSync(join(folder, 'curl')))
  assert.ok(
    curl,
    'The commands of README.md need curl 7.84 or later on the PATH; install it (Debian: apt-get install curl).',
  )
  const marked = script.map((block) => `${block.replaceAll('http://127.0.0.1:3000', server.url)}\necho "=== end"\n`)
  const shell = spawn('sh', ['-e', '-c', marked.join('')], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NO_PROXY: '127.0.0.1' },
  })
  let text = ''
  let complaints = ''
  shell.stderr.on('data', (chunk) => { complaints += String(chunk) })
  shell.stdout.on('data', (chunk) => { text += String(chunk) })
  const [code] = await once(shell, 'close') as [number | null]
  assert.equal(code, 0, text + complaints)
  return text.split('=== end\n').slice(0, -1)
}

describe('the first screen of README.md', () => {
  const screen = readme.slice(0, readme.indexOf('\n## '))

  test('says in one sentence what longhaul is, as package.json does', () => {
    const { description } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { description: string }
    assert.ok(screen.includes(`\n**${description}**\n`))
  })

  test('asks the question of clients, shows the picture, and then an Express app with progress and its own users', () => {
    const picture = screen.search(/^!\[[^\]]{40,}\]\(docs\/flow\.svg\)$/m)
    const [app = ''] = blocks(screen, 'ts')
    assert.ok(
      screen.indexOf('> How do I give the result of a job back to the client?') < picture &&
        picture < screen.indexOf(app),
    )
    assert.match(app, /^import express from 'express'$/m)
    assert.match(app, /progress\(month, 12\)/)
    assert.match(app, /owner: \(\{ context \}: HttpRequest<.+>\) => context\.user\?\.id/)
  })

  test('has the commands for a clone, and at most 130 lines', () => {
    assert.ok(blocks(readme, 'sh').includes('npm ci && npm start\nnpm ci && npm test\n'))
    assert.ok(readme.split('\n').length <= 131)
  })
})

describe('the guide of the reference server', () => {
  test('starts with npm ci && npm start', () => {
    assert.equal(blocks(section(reference, 'Try it'), 'sh')[0], 'npm ci && npm start\n')
  })

  test('SPEC 4.6: has commands with the described effects', async () => {
    const commands = blocks(section(reference, 'Try it'), 'sh').slice(1)
    assert.equal(commands.length, 8)
    const [
      submitted = '', watched = '', waited = '', cancelled = '', direct = '', retried = '', exported = '', listed = '',
    ] = await paste(commands)

    assert.match(submitted, /^HTTP\/1\.1 202 /)
    assert.match(submitted, /^location: \/api\/status\//m)
    assert.match(submitted, /"taskId":"/)

    assert.match(watched, /^HTTP\/1\.1 200 [^]*"status":"processing"/)
    assert.match(watched, /"progress":\{"done":[0-9]+,"total":5000\}/)
    assert.match(watched, /\ndata: \{[^\n]*"status":"completed"[^\n]*"message":"Waited for 5000 ms\."[^\n]*\n\n$/)

    assert.match(waited, /^HTTP\/1\.1 200 [^]*\npreference-applied: wait=20\r\n[^]*"status":"completed"/)
    assert.match(cancelled, /^HTTP\/1\.1 200 [^]*"status":"cancelled"/)
    assert.match(direct, /^HTTP\/1\.1 200 [^]*"sha256":"[0-9a-f]{64}"/)

    assert.match(
      retried,
      /"status":"failed"[^]*HTTP\/1\.1 202 [^]*\nlocation: \/api\/status\/[^]*"status":"processing"/,
    )
    assert.match(
      exported,
      /"files":\[\{"name":"users\.ndjson"[^]*HTTP\/1\.1 200 [^]*\nrepr-digest: sha-256=:[^]*\n\{"id":[^\n]*\n/,
    )
    assert.match(listed, /^HTTP\/1\.1 200 [^]*\nlink: <\/api\/status\?[^]*\{"items":\[\{"taskId":"[^]*"next":"/)
  })
})

/** The anchors of a page: its headings, as GitHub and typedoc write them. */
function anchors(page: string): Set<string> {
  const headings = readFileSync(page, 'utf8').replaceAll(/^```[^]*?^```$/gm, '').matchAll(/^#+ (.+)$/gm)
  return new Set(
    [...headings].map(([, title = '']) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  )
}

describe('the links of the pages', () => {
  const below = (folder: string) => readdirSync(join(root, folder)).map((name) => `${folder}/${name}`)
  const top = [
    'README.md', 'CONTRIBUTING.md', 'SECURITY.md', 'docs/README.md', 'docs/guarantees.md',
    'docs/errors.md', 'docs/benchmarks.md',
  ]
  for (const page of [...top, ...below('docs/guide'), ...below('docs/adr')]) {
    test(`${page} leads to existing pages`, () => {
      const links = [...readFileSync(join(root, page), 'utf8').matchAll(/\]\((?!\w+:)([^)#]*)(?:#([^)]+))?\)/g)]
      const dead = links.filter(([, target = '', anchor]) => {
        const path = target === '' ? join(root, page) : join(root, dirname(page), target)
        return !existsSync(path) || (anchor !== undefined && !anchors(path).has(anchor))
      })
      assert.deepEqual(dead.map(([link]) => link), [])
    })
  }

  test('docs/README.md leads to every page of the guide', () => {
    const front = readFileSync(join(root, 'docs/README.md'), 'utf8')
    assert.deepEqual(readdirSync(join(root, 'docs/guide')).filter((name) => !front.includes(`(guide/${name})`)), [])
  })

  test('the site contains every page of the guide', () => {
    const site = JSON.parse(readFileSync(join(root, 'typedoc.json'), 'utf8')) as { projectDocuments: string[] }
    const pages = below('docs/guide')
    assert.deepEqual(pages.filter((page) => !site.projectDocuments.includes(page)), [])
  })
})
