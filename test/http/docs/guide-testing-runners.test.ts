import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { root } from '../kit/process.js'

/** vitest and jest, which only this test and the check of the package need. */
const CHECKS = join(root, 'checks')
const PAGE = join(root, 'test/http/docs/guide-testing.test.ts')

describe('the tests of the guide run under other test runners', () => {
  let folder: string

  before(async () => {
    await promisify(execFile)('npm', ['run', '--silent', 'checks:install'], { cwd: root })
    // Below checks: it finds their packages, and those of the repository.
    folder = await mkdtemp(join(CHECKS, 'runners-'))
    await writeFile(join(folder, 'package.json'), '{ "name": "runners", "private": true }')
    await writeFile(join(folder, 'vitest.config.mjs'), 'export default {}')
  })

  after(async () => { await rm(folder, { recursive: true, force: true }) })

  /** Bundles the page's tests for a runner: `test` comes from `globals`, or from the module `from`. */
  async function bundle(file: string, format: 'esm' | 'cjs', from?: string): Promise<void> {
    await build({
      entryPoints: [PAGE], outfile: join(folder, file), bundle: true, format, platform: 'node',
      packages: 'external', tsconfig: join(root, 'tsconfig.json'), logLevel: 'silent',
      plugins: [{
        name: 'runner',
        setup: ({ onResolve, onLoad }) => {
          if (from !== undefined) {
            onResolve({ filter: /^node:test$/ }, () => ({ path: from, external: true }))
            return
          }
          onResolve({ filter: /^node:test$/ }, ({ path }) => ({ path, namespace: 'globals' }))
          onLoad({ filter: /.*/, namespace: 'globals' }, () => ({
            contents: 'export const test = globalThis.test',
          }))
        },
      }],
    })
  }

  async function run(name: string, ...parameters: string[]): Promise<string> {
    const { NODE_TEST_CONTEXT: _, ...env } = process.env
    const program = join(CHECKS, 'node_modules/.bin', name)
    const child = spawn(program, parameters, { cwd: folder, env: { ...env, NO_COLOR: '1', CI: '1' } })
    const [[code], said, complained] = await Promise.all([
      once(child, 'close') as Promise<[number | null]>, text(child.stdout), text(child.stderr),
    ])
    assert.equal(code, 0, said + complained)
    return said + complained
  }

  test('vitest', async () => {
    await bundle('guide.vitest.test.mjs', 'esm', 'vitest')
    const output = await run('vitest', 'run', '--root', folder, 'guide.vitest')
    assert.match(output, /Tests\s+7 passed \(7\)/)
  })

  test('jest', async () => {
    await bundle('guide.jest.test.cjs', 'cjs')
    const output = await run('jest', '--ci', '--rootDir', folder, '--testMatch', '**/guide.jest.test.cjs')
    assert.match(output, /Tests:\s+7 passed, 7 total/)
  })
})
