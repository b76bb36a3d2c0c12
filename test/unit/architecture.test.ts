import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { ESLint } from 'eslint'
import tseslint from 'typescript-eslint'
import { FOLDERS } from '../../scripts/import-directions.mjs'
import { findCycles, readImports } from '../../scripts/import-graph.mjs'

const root = join(import.meta.dirname, '..', '..')

// The real configuration, without the rules that need types: the files below are not on the disk.
const eslint = new ESLint({
  cwd: root,
  overrideConfig: [
    tseslint.configs.disableTypeChecked,
    { languageOptions: { parserOptions: { projectService: false } } },
  ],
})

async function lint(path: string, code: string): Promise<string[]> {
  const [result] = await eslint.lintText(code, { filePath: join(root, path) })
  assert.ok(result)
  return result.messages.map((message) => `${message.ruleId}: ${message.message}`)
}

const imports = (from: string) => `import { a } from '${from}'\nexport const b = a\n`

describe('a wrong import is reported', () => {
  const wrong: [path: string, from: string, reason: string][] = [
    ['src/runtime/x.ts', '../http/errors.js', 'src/runtime must not import src/http'],
    ['src/wire/x.ts', '../runtime/maybe-promise.js', 'src/wire must not import src/runtime'],
    ['src/http/x.ts', '../schema/schema.js', 'src/http must not import src/schema'],
    ['src/http/headers/x.ts', '../../stores/store.js', 'src/http must not import src/stores'],
    ['src/http/x.ts', '../tasks/tasks.js', 'src/http must not import src/tasks'],
    ['src/http/x.ts', '../index.js', "src/http can't import the package's index"],
    ['src/schema/x.ts', '../stores/store.js', 'src/schema must not import src/stores'],
    ['src/stores/x.ts', '../http/exchange.js', 'src/stores must not import src/http'],
    ['src/stores/x.ts', '../engine/engine.js', 'src/stores must not import src/engine'],
    ['src/stores/x.ts', 'lru-cache', 'stores is a contract: it needs no package'],
    ['src/engine/x.ts', '../tasks/tasks.js', 'src/engine must not import src/tasks'],
    ['src/engine/x.ts', 'ajv', 'engine is a contract: it needs no package'],
    ['src/tasks/definition/x.ts', '../record/details.js', 'src/tasks/definition must not import src/tasks/record'],
    ['src/tasks/record/x.ts', '../core/accept-task.js', 'src/tasks/record must not import src/tasks/core'],
    ['src/tasks/run/x.ts', '../core/task-core.js', 'src/tasks/run must not import src/tasks/core'],
    ['src/tasks/run/x.ts', '../tasks.js', 'src/tasks/run must not import src/tasks'],
    ['src/tasks/run/x.ts', '../http/status.js', 'src/tasks/run must not import src/tasks/http'],
    ['src/tasks/x.ts', './http/status.js', 'src/tasks must not import src/tasks/http'],
    ['src/tasks/x.ts', '../bulk/create.js', 'src/tasks must not import src/bulk'],
    ['src/tasks/run/x.ts', '../../callbacks/dispatcher.js', 'src/tasks/run must not import src/callbacks'],
    ['src/idempotency/x.ts', '../tasks/tasks.js', 'src/idempotency must not import src/tasks'],
    ['src/callbacks/x.ts', '../tasks/run/execute.js', 'src/callbacks must not import src/tasks/run'],
    ['src/bulk/x.ts', '../tasks/run/execute.js', 'src/bulk must not import src/tasks/run'],
    ['src/json-array/x.ts', '../bulk/create.js', 'src/json-array must not import src/bulk'],
    ['src/ndjson/x.ts', '../bulk/create.js', 'src/ndjson must not import src/bulk'],
    ['src/content/x.ts', '../tasks/tasks.js', 'src/content must not import src/tasks'],
    ['src/resources/x.ts', '../policies/rate-limit.js', 'src/resources must not import src/policies'],
    ['src/policies/x.ts', '../resources/router.js', 'src/policies must not import src/resources'],
    ['src/openapi/deep/x.ts', '../../tasks/tasks.js', 'src/openapi must not import src/tasks'],
    ['src/attic/x.ts', '../http/exchange.js', 'src/attic has no entry in scripts/import-directions.mjs'],
    ['src/tasks/x.ts', '../../adapters/memory/index.js', 'src knows nobody outside src'],
    ['src/index.ts', '../adapters/memory/index.js', 'src knows nobody outside src'],
    ['src/tasks/x.ts', '../../test/x.js', 'src knows nobody outside src'],
    ['src/tasks/x.ts', 'longhaul', 'src imports its own files by relative path'],
    ['src/tasks/x.ts', 'crypto', 'write node:crypto'],
    ...[
      'node:http', 'node:http2', 'node:https', 'node:net', 'node:tls', 'node:fs',
      'node:fs/promises', 'node:child_process', 'node:worker_threads', 'node:dns',
    ].map((name): [string, string, string] => [
      'src/tasks/x.ts',
      name,
      `src knows no server, socket, file or process; ${name} belongs in adapters`,
    ]),
    ...['express', 'fastify', 'koa', 'hono', 'connect', 'ioredis', 'bullmq', 'zod'].map(
      (name): [string, string, string] => [
        'src/tasks/x.ts',
        name,
        `src imports only the dependencies in package.json, and ${name} is none`,
      ],
    ),
    ['src/tasks/x.ts', '@koa/router', 'src imports only the dependencies in package.json, and @koa/router is none'],
    ['adapters/memory/x.ts', '../node/index.js', 'adapters/memory must not know adapters/node'],
    ['adapters/node/x.ts', '../memory/store.js', 'adapters/node must not know adapters/memory'],
    ['adapters/node/x.ts', '../../test/x.js', 'adapters import src and themselves only'],
    ['adapters/node/x.ts', 'longhaul/memory', 'adapters imports its own files by relative path'],
    ['adapters/node/x.ts', 'zod', 'adapters import only the (peer) dependencies in package.json, and zod is none'],
    ...[
      'node:crypto', 'node:stream', 'standardwebhooks', '../http/errors.js',
      '../../adapters/node/index.js', '../clients/x.js',
    ].map((from): [string, string, string] => [
      'src/client/x.ts', from,
      'src/client runs in browsers and imports its own files and src/wire only',
    ]),
    ['conformance/x.ts', '../src/http/exchange.js', 'conformance must not import src/http'],
    ['conformance/engine/x.ts', '../../src/index.js', "conformance can't import the package's index"],
    ['conformance/x.ts', '../adapters/memory/index.js', 'conformance imports src and itself only'],
    ['conformance/x.ts', '../test/x.js', 'conformance imports src and itself only'],
    ['conformance/x.ts', 'longhaul/engine', 'conformance imports its own files by relative path'],
    [
      'conformance/x.ts', 'node:test',
      'conformance knows no test runner, server, socket, file or process, and node:test is one',
    ],
    ['conformance/x.ts', 'fast-check', 'conformance needs no package, and fast-check is one'],
    ['src/tasks/x.ts', '../../conformance/runner.js', 'src knows nobody outside src'],
    ['adapters/memory/x.ts', '../../conformance/runner.js', 'adapters import src and themselves only'],
    [
      'examples/express/main.ts',
      '../../src/index.js',
      "examples import the package by its public names ('longhaul', 'longhaul/…')",
    ],
    [
      'examples/express/main.ts',
      '../../adapters/node/index.js',
      "examples import the package by its public names ('longhaul', 'longhaul/…')",
    ],
  ]
  for (const [path, from, reason] of wrong) {
    test(`${path} <- ${from}`, async () => {
      assert.deepEqual(await lint(path, imports(from)), [`longhaul/import-directions: ${reason}`])
    })
  }

  const ways: Record<string, string> = {
    'import type': "import type { A } from 'node:http'\nexport type B = A\n",
    'import for effect': "import 'node:http'\n",
    'import()': "export const a = import('node:http')\n",
    'import() of a type': "export type A = import('node:http').Server\n",
    'export from': "export { a } from 'node:http'\n"
  }
  for (const [way, code] of Object.entries(ways)) {
    test(`in ${way}`, async () => {
      assert.ok(
        (await lint('src/http/x.ts', code)).some((message) => message.startsWith('longhaul/import-directions: ')),
      )
    })
  }

  test('although a comment tries to switch the rule off', async () => {
    const messages = await lint('src/http/x.ts', `/* eslint-disable */\n${imports('node:http')}`)
    assert.ok(messages.some((message) => message.startsWith('longhaul/import-directions: ')))
  })
})

describe('a right import is not reported', () => {
  const right: [path: string, from: string][] = [
    ['src/index.ts', './engine/task.js'],
    ['src/http/x.ts', './errors.js'],
    ['src/http/x.ts', 'node:zlib'],
    ['src/http/x.ts', 'fast-json-stringify'],
    ['src/schema/x.ts', '../http/errors.js'],
    ['src/schema/x.ts', '@standard-schema/spec'],
    ['src/tasks/x.ts', '../stores/store.js'],
    ['src/tasks/http/x.ts', '../tasks.js'],
    ['src/tasks/x.ts', './core/task-core.js'],
    ['src/bulk/deep/x.ts', '../../tasks/definition/define.js'],
    ['src/callbacks/x.ts', '../tasks/record/callbacks.js'],
    ['src/callbacks/x.ts', 'node:http'],
    ['src/bulk/x.ts', '../http/errors.js'],
    ['adapters/memory/x.ts', '../../src/stores/store.js'],
    ['adapters/memory/x.ts', 'lru-cache'],
    ['adapters/node/x.ts', 'node:http'],
    ['src/client/x.ts', './errors.js'],
    ['src/client/x.ts', '../wire/task.js'],
    ['src/client/deep/x.ts', '../errors.js'],
    ['conformance/x.ts', 'node:assert/strict'],
    ['conformance/engine/x.ts', '../../src/engine/task.js'],
    ['conformance/engine/x.ts', '../runner.js'],
    ['examples/express/main.ts', 'longhaul/node'],
    ['examples/express/main.ts', 'express'],
    ['examples/express/main.ts', '../shared.js'],
    ['test/unit/x.ts', '../../src/http/errors.js']
  ]
  for (const [path, from] of right) {
    test(`${path} <- ${from}`, async () => {
      assert.deepEqual(await lint(path, imports(from)), [])
    })
  }
})

describe('the house style', () => {
  test('lets a docblock begin with a verb or a noun phrase only', async () => {
    const messageFor = async (docblock: string) => lint('src/http/x.ts', `${docblock}\nexport const a = 1\n`)
    for (const word of ['What', 'Whether', 'Who', 'How', 'Where', 'When']) {
      const expected = [`longhaul/docblock-start: begin with a verb or a noun phrase, not with ${word}`]
      assert.deepEqual(await messageFor(`/** ${word} it is. */`), expected)
      assert.deepEqual(await messageFor(`/**\n * ${word} it is.\n */`), expected)
    }
    for (const good of ['/** Returns what it is. */', '// What it is.', '/* What it is. */', '/** Whole number. */']) {
      assert.deepEqual(await messageFor(good), [])
    }
  })
  test('allows no default export', async () => {
    assert.deepEqual(await lint('src/http/x.ts', 'export default 1\n'), ['no-restricted-syntax: Name what you export.'])
  })
  test('allows no star export in the package', async () => {
    assert.deepEqual(await lint('src/index.ts', "export * from './http/errors.js'\n"), [
      'no-restricted-syntax: List the names that you export.',
    ])
  })
  test('allows no semicolons and only single quotes', async () => {
    const rules = (await lint('src/http/x.ts', 'export const a = "b";\n')).map((message) => message.split(':')[0])
    assert.deepEqual(rules.sort(), ['@stylistic/quotes', '@stylistic/semi'])
  })
  test('allows no globals of Node in files for browsers', async () => {
    const code = 'export const a = [Buffer.alloc(1), process.env]\n'
    const rules = (await lint('src/client/x.ts', code)).map((message) => message.split(':')[0])
    assert.deepEqual(rules, ['no-restricted-globals', 'no-restricted-globals'])
  })
  test('allows no any', async () => {
    const rules = (await lint('src/http/x.ts', 'export const a = {} as any\n')).map((message) => message.split(':')[0])
    assert.deepEqual(rules, ['@typescript-eslint/no-explicit-any'])
  })
})

describe('the folders of src', () => {
  const folders = ['src', 'adapters', 'conformance', 'examples', 'test', 'bench'].flatMap((area) =>
    readdirSync(join(root, area), { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.parentPath.includes('node_modules'))
      .map((entry) => ({ name: entry.name, path: join(entry.parentPath, entry.name) })))

  test('have no file or folder with a catch-all name', () => {
    const drawers = folders.filter(({ name }) => /^(?:utils?|helpers?|common|misc|lib)(?:\.[a-z]+)?$/.test(name))
    assert.deepEqual(drawers.map(({ path }) => path), [])
  })
  test('have all their import directions in the list', () => {
    const below = readdirSync(join(root, 'src'), { withFileTypes: true }).filter((entry) => entry.isDirectory())
    assert.ok(below.length > 0)
    assert.deepEqual(below.map((folder) => folder.name).filter((name) => !Object.hasOwn(FOLDERS, name)), [])
  })
  test('have no file that imports itself, directly or through others', () => {
    assert.deepEqual(findCycles(readImports()), [])
  })
  test('are checked for cycles', () => {
    const imports = new Map([['a', ['b']], ['b', ['c', 'd']], ['c', ['a']], ['d', []]])
    assert.deepEqual(findCycles(imports), [['a', 'b', 'c']])
  })
})
