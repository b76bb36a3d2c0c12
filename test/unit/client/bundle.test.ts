import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import ts from 'typescript'
import { bundled } from '../kit/bundle.js'

const KIB = 1024
const root = join(import.meta.dirname, '..', '..', '..')

/** The size of a program that uses these names only, in bytes after gzip. */
async function sizeOf(...names: string[]): Promise<number> {
  return gzipSync(
    await bundled(`import { ${names.join(', ')} } from 'longhaul/client'\nconsole.log(${names.join(', ')})`),
    { level: 9 },
  ).length
}

describe('the client in a bundle for browsers', () => {
  test('stays within its size', async () => {
    const bytes = await sizeOf(
      'createClient',
      'verifyCallback',
      'writeNdjson',
      'readNdjson',
      'isClientError',
      'isTaskFailed',
      'isBulkFailed',
    )
    assert.ok(bytes < 16.5 * KIB && bytes > 4 * KIB, `${bytes} bytes`)
  })

  test('contains no unused parts', async () => {
    for (const [name, limit] of [
      ['readNdjson', 1.75],
      ['writeNdjson', 0.75],
      ['verifyCallback', 1.5],
      ['isClientError', 0.5],
    ] as const) {
      const bytes = await sizeOf(name)
      assert.ok(bytes < limit * KIB, `${name}: ${bytes} bytes`)
    }
    const nothing = await bundled("import 'longhaul/client'")
    assert.equal(nothing.trim(), '')
  })

  test('compiles against the types of a browser, without those of Node', () => {
    const program = ts.createProgram([join(root, 'src/client/index.ts')], {
      target: ts.ScriptTarget.ES2022,
      lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'],
      types: [],
      strict: true,
      exactOptionalPropertyTypes: true,
      module: ts.ModuleKind.Preserve,
      moduleResolution: ts.ModuleResolutionKind.Bundler,
      noEmit: true,
    })
    assert.deepEqual(
      ts
        .getPreEmitDiagnostics(program)
        .map(({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`),
      [],
    )
    const files = program
      .getSourceFiles()
      .map(({ fileName }) => fileName)
      .filter((name) => !name.includes('/typescript/lib/'))
    assert.deepEqual(files.filter((name) => !/\/src\/(?:client|wire)\//.test(name)), [])
  })
})
