import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'

const root = join(import.meta.dirname, '..', '..')
const guide = join(root, 'docs/guide')

/** The lines between `// #region name` and its end, moved to the left. */
function region(path: string, name: string): string {
  const [, inside] =
    new RegExp(`^ *// #region ${name}\n([^]*?)^ *// #endregion$`, 'm').exec(readFileSync(join(root, path), 'utf8')) ??
    []
  assert.ok(inside !== undefined, `${path} has no region ${name}`)
  const lines = inside.split('\n')
  const indent = Math.min(...lines.filter((line) => line !== '').map((line) => line.length - line.trimStart().length))
  return lines.map((line) => line.slice(indent)).join('\n')
}

describe('code of the guide that is taken from files', () => {
  let shown = 0
  for (const name of readdirSync(guide)) {
    const page = readFileSync(join(guide, name), 'utf8')
    for (const [block, , text] of page.matchAll(/(^<!-- .*-->\n)?^```typescript\n([^]*?)^```$/gm)) {
      const [, path, part] = /^<!-- (\S+)#(\S+) -->\n/.exec(block) ?? []
      shown++
      test(`${name}: ${path ?? 'unknown'}#${part ?? ''} equals its file`, () => {
        assert.ok(
          path !== undefined && part !== undefined,
          'a comment in front of the block has to say where it is from',
        )
        assert.equal(text, region(path, part))
      })
    }
  }
  test('exists', () => { assert.ok(shown >= 4) })
})

test('taskEndpoints has no type argument in samples, because the compiler then accepts unregistered definitions', () => {
  const pages = ['README.md', ...readdirSync(guide).map((name) => `docs/guide/${name}`)]
  const given = pages.filter((page) => {
    const blocks = readFileSync(join(root, page), 'utf8').matchAll(/^```(?:ts|typescript)\n([^]*?)^```$/gm)
    return [...blocks].some(([, code]) => /\b(?:task|operator)Endpoints</.test(code ?? ''))
  })
  assert.deepEqual(given, [])
})
