// Compiles texts as if they were files beside the examples.
import { dirname, join } from 'node:path'
import ts from 'typescript'
import { root } from './process.js'

const folder = join(root, 'examples', 'snippets')
const NODE_SQLITE = join(root, 'test/http/kit/node-sqlite.d.ts')

/**
 * Compiles modules under the settings of this repository. They exist in memory only, in
 * `examples/snippets` or folders below it, and may import one another.
 *
 * @param modules The text of each module by the name of its file.
 * @returns The problems of each module by the name of its file; none if all compile.
 */
export function compile(modules: ReadonlyMap<string, string>): Record<string, string[]> {
  const texts = new Map([...modules].map(([name, text]) => [join(folder, name), text] as const))
  const options = settings()
  const program = ts.createProgram([NODE_SQLITE, ...texts.keys()], options, hostOf(options, texts))
  const problems: Record<string, string[]> = {}
  for (const name of modules.keys()) {
    const file = program.getSourceFile(join(folder, name))
    if (file === undefined) throw new Error(`${name} was not compiled`)
    const found = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]
    if (found.length > 0) problems[name] = found.map((each) => sentence(file, each))
  }
  return problems
}

function settings(): ts.CompilerOptions {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => ts.sys.readFile(path))
  return ts.parseJsonConfigFileContent({ ...config, include: [], files: ['src/index.ts'] }, ts.sys, root).options
}

function hostOf(options: ts.CompilerOptions, texts: ReadonlyMap<string, string>): ts.CompilerHost {
  const host = ts.createCompilerHost(options)
  const { fileExists, readFile } = host
  const getSourceFile = host.getSourceFile.bind(host)
  const folders = new Set([folder, ...[...texts.keys()].map((path) => dirname(path))])
  host.directoryExists = (path) => folders.has(path) || ts.sys.directoryExists(path)
  host.fileExists = (path) => texts.has(path) || fileExists(path)
  host.readFile = (path) => texts.get(path) ?? readFile(path)
  host.getSourceFile = (path, version, ...rest) => {
    const text = texts.get(path)
    return text === undefined ? getSourceFile(path, version, ...rest) : ts.createSourceFile(path, text, version)
  }
  return host
}

function sentence(file: ts.SourceFile, { start, messageText }: ts.Diagnostic): string {
  const line = start === undefined ? '' : file.text.slice(0, start).split('\n').length
  return `line ${line}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`
}
