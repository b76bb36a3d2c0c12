// The types that the server and the client share.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { describe, test } from 'node:test'
import { transform } from 'esbuild'
import ts from 'typescript'
import { readImports } from '../../scripts/import-graph.mjs'

const root = join(import.meta.dirname, '..', '..')
const wire = join(root, 'src', 'wire')

/** Compiles the files that import `src/wire`. `rename` changes its text. Returns the errors by file. */
function errorsWith(rename: (text: string) => string): Map<string, string> {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
  const host = ts.createCompilerHost(options)
  const read = host.readFile.bind(host)
  host.readFile = (file) => {
    const text = read(file)
    return text !== undefined && file.startsWith(wire) ? rename(text) : text
  }
  const users = [...readImports()].filter(
    ([file, targets]) => file.startsWith('src/') && targets.some((target) => target.startsWith('src/wire/')),
  )
  const program = ts.createProgram(users.map(([file]) => join(root, file)), { ...options, noEmit: true }, host)
  return new Map(users.filter(([file]) => !file.startsWith('src/wire/')).flatMap(([file]) => {
    const faults = program.getSemanticDiagnostics(program.getSourceFile(join(root, file)))
    const texts = faults.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '))
    return texts.length > 0 ? [[relative(root, join(root, file)), texts.join('\n')] as const] : []
  }))
}

/** A name of a wire type, and a file of the client and one of the server that use it. */
const USERS: readonly (readonly [name: string, client: string, server: string])[] = [
  ['code', 'src/client/send.ts', 'src/http/respond.ts'],
  ['done', 'src/client/status.ts', 'src/tasks/http/formats.ts'],
  ['attempts', 'src/client/status.ts', 'src/tasks/record/view.ts'],
  ['callback', 'src/client/status.ts', 'src/tasks/record/view.ts'],
  ['files', 'src/client/status.ts', 'src/tasks/record/view.ts'],
  ['type', 'src/client/verify-callback.ts', 'src/tasks/http/callback-operations.ts'],
  ['summary', 'src/client/bulk.ts', 'src/bulk/task.ts'],
  ['index', 'src/client/bulk.ts', 'src/records/http.ts'],
  ['items', 'src/client/task-list.ts', 'src/tasks/http/operations.ts'],
  ['id', 'src/client/partial-results.ts', 'src/partial/endpoint.ts'],
  ['respond-async', 'src/client/submit.ts', 'src/http/headers/prefer.ts'],
]

describe('the types that server and client share', () => {
  const errors = errorsWith((text) =>
    text
      .replaceAll(/(?<=\breadonly )(\w+)(?=\??:)/g, 'other_$1')
      .replaceAll("'respond-async'", "'other_respond-async'"),
  )
  for (const [name, ...users] of USERS) {
    test(`a change of ${name} breaks both`, () => {
      for (const user of users) assert.match(errors.get(user) ?? '', new RegExp(`\\b${name}\\b`), user)
    })
  }

  test('are not in the build', async () => {
    for (const file of readdirSync(wire)) {
      const { code } = await transform(readFileSync(join(wire, file), 'utf8'), { loader: 'ts' })
      assert.equal(code, '', file)
    }
  })
})
