// Every example, started as its first line says.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { postgresUrl } from '../../servers/postgres-url.js'
import { redisUrl } from '../../servers/redis-server.js'
import { root, ServerProcess, stopAfterwards } from '../kit/process.js'

const folders = readdirSync(join(root, 'examples'), { withFileTypes: true }).filter((entry) => entry.isDirectory())
const files = folders.flatMap(({ name }) => readdirSync(join(root, 'examples', name))
  .filter((file) => ['main.ts', 'web.ts'].includes(file)).map((file) => `${name}/${file}`))
const commands = new Map(
  files.map((file) => [file, /^\/\/ (.+)\n/.exec(readFileSync(join(root, 'examples', file), 'utf8'))?.[1] ?? '']),
)

stopAfterwards()
const SERVERS = { DATABASE_URL: await postgresUrl(), REDIS_URL: await redisUrl() }

/** Starts a command with the servers of this test in place of those that it names. */
function start(command: string): ServerProcess {
  const text = Object.entries(SERVERS).reduce(
    (line, [name, url]) => line.replace(new RegExp(`${name}=\\S+`), `${name}='${url}'`),
    command,
  )
  return new ServerProcess('sh', ['-c', text], { PORT: '0', DATABASE_URL: undefined, REDIS_URL: undefined })
}

async function end(server: ServerProcess): Promise<void> {
  process.kill(-(server.child.pid ?? 0), 'SIGKILL')
  await server.exited
}

describe('The first line of an example', () => {
  for (const [file, command] of commands) {
    test(`starts ${file} on 127.0.0.1`, async () => {
      const server = start(command)
      const [, address] = await server.said(/(?:at http:\/\/([\d.]+):\d+|worker is ready)/)
      assert.ok(address === undefined || address === '127.0.0.1', address)
      assert.equal(server.err, '')
      await end(server)
    })
  }
})

describe('An example without a setting that it needs', () => {
  for (const [file, command] of commands) {
    const [names = '', rest = ''] = /^((?:\w+=\S+ )*)(.+)$/.exec(command)?.slice(1) ?? []
    if (names === '') continue
    test(`ends with one sentence: ${file}`, async () => {
      const server = start(rest)
      assert.deepEqual(await server.exited, { code: 1, signal: null })
      assert.match(server.err, new RegExp(`^Set ${names.split('=')[0]}[^\n]+\\.\n$`))
    })
  }
})

test('examples/README.md has the command of each example, and every folder', () => {
  const page = readFileSync(join(root, 'examples/README.md'), 'utf8')
  const rows = new Map(
    [...page.matchAll(/^\| \[[\w-]+\]\((.+?)\) \|.*\| `(.+)` \|$/gm)].map(([, file = '', command = '']) => [
      file,
      command,
    ]),
  )
  assert.deepEqual(Object.fromEntries(rows), Object.fromEntries(commands))
  assert.deepEqual(folders.filter(({ name }) => ![...rows.keys()].some((file) => file.startsWith(`${name}/`))), [])
})
