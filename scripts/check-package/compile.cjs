// Compiles programs with one version of TypeScript: { path, programs: [{ name, options, files, least }] }, with `least` files of our types on stdin.
// Checks the programs and the types of longhaul. Those of its peers and of Node are not ours, and take most of the time.
const { readFileSync } = require('node:fs')
const { createRequire } = require('node:module')
const { join } = require('node:path')

const { path, programs } = JSON.parse(readFileSync(0, 'utf8'))
const ts = createRequire(join(process.cwd(), 'x.js'))(path)

for (const { name, options, files, least } of programs) {
  const { options: parsed, errors } = ts.convertCompilerOptionsFromJson(options, process.cwd())
  const program = ts.createProgram(files.map((file) => join(process.cwd(), file)), parsed)
  const own = program.getSourceFiles().filter(({ fileName }) => {
    return !fileName.includes('/node_modules/') || fileName.includes('/node_modules/longhaul/')
  })
  const types = own.filter(({ fileName }) => fileName.includes('/node_modules/longhaul/dist/types/'))
  if (types.length < least) throw new Error(`${name}: only ${types.length} files of types were found`)
  const found = [
    ...errors,
    ...program.getOptionsDiagnostics(),
    ...program.getGlobalDiagnostics(),
    ...own.flatMap((file) => [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]),
    ...parsed.declaration ? program.getDeclarationDiagnostics() : []
  ]
  if (found.length > 0) {
    const host = { getCanonicalFileName: (file) => file, getCurrentDirectory: () => process.cwd(), getNewLine: () => '\n' }
    console.error(`${name}:\n${ts.formatDiagnostics(found, host)}`)
    process.exitCode = 1
  }
  program.emit()
}
