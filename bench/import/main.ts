// npm run bench:import [-- --starts 15]: time to import longhaul and each of its entry points in Node.
import { execFileSync } from 'node:child_process'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { build } from 'tsup'
import { ENTRY_POINTS } from '../../scripts/entry-points.mjs'
import { nodeBuilds } from '../../tsup.config.js'
import { spread } from '../frame/stats.js'
import { table } from '../frame/table.js'
import { versionsOf } from '../frame/versions.js'

/** Time of one process, in milliseconds, and CPU time of its user code and the kernel. */
interface Start { readonly ms: number, readonly cpuMs: number }

/** A program that each start runs in a fresh process. */
interface Subject { readonly name: string, readonly format: 'module' | 'commonjs', readonly code: string }

const { values: { starts: wanted } } = parseArgs({ options: { starts: { type: 'string', default: '15' } } })
const starts = Number(wanted)
const root = resolve(import.meta.dirname, '../..')
const folder = resolve(root, 'node_modules/.cache/longhaul-bench/import')

/** Prints the time since the start of the process, so the cost of ending it is not counted. */
const REPORT = `
const { user, system } = process.cpuUsage()
console.log(JSON.stringify({ ms: performance.now(), cpuMs: (user + system) / 1000 }))`

await buildPackage()
const subjects = listSubjects()
const results = new Map<string, Start[]>(subjects.map(({ name }) => [name, []]))
for (let round = 0; round < starts; round++) {
  // The order turns, so that no subject always follows the same one.
  for (const at of subjects.keys()) {
    const subject = subjects[(at + round) % subjects.length] as Subject
    results.get(subject.name)?.push(start(subject))
  }
}
process.stdout.write(report())

/** Builds what Node loads, from the present sources and with the options of the package. */
async function buildPackage(): Promise<void> {
  await rm(folder, { recursive: true, force: true })
  for (const options of nodeBuilds) {
    const outDir = resolve(folder, options.format as string)
    await build({ ...options, config: false, silent: true, outDir })
    await mkdir(outDir, { recursive: true })
    const type = options.format === 'esm' ? 'module' : 'commonjs'
    await writeFile(resolve(outDir, 'package.json'), JSON.stringify({ type }))
  }
}

function listSubjects(): Subject[] {
  const esm = (entry: string) => pathToFileURL(resolve(folder, `esm/${entry}.js`)).href
  const cjs = (entry: string) => resolve(folder, `cjs/${entry}.cjs`)
  const schema = "jsonSchema({ type: 'object', properties: { year: { type: 'integer' } } })"
  return [
    imports('empty module'),
    imports('express', 'express'),
    imports('fastify', 'fastify'),
    ...Object.keys(ENTRY_POINTS).map((entry) => imports(nameOf(entry), esm(entry))),
    { name: 'longhaul and the first jsonSchema()', format: 'module', code: `import { jsonSchema } from '${esm('index')}'\n${schema}` },
    requires('require: empty module'),
    requires('require: express', 'express'),
    requires('require: fastify', 'fastify'),
    requires('require: longhaul', cjs('index')),
  ]
}

function nameOf(entry: string): string {
  return entry === 'index' ? 'longhaul' : `longhaul/${entry}`
}

function imports(name: string, specifier?: string): Subject {
  return { name, format: 'module', code: specifier === undefined ? '' : `import '${specifier}'` }
}

function requires(name: string, specifier?: string): Subject {
  return { name, format: 'commonjs', code: specifier === undefined ? '' : `require('${specifier}')` }
}

function start({ format, code }: Subject): Start {
  const args = [`--input-type=${format}`, '--eval', code + REPORT]
  return JSON.parse(execFileSync(process.execPath, args, { cwd: root, encoding: 'utf8' })) as Start
}

function report(): string {
  const rows = subjects.filter(({ name }) => !name.endsWith('empty module')).map(({ name, format }) => {
    const express = format === 'module' ? 'express' : 'require: express'
    const [ms, cpuMs] = [over(name, 'ms'), over(name, 'cpuMs')]
    const ratio = (part: number, key: keyof Start) => (part / over(express, key)).toFixed(2)
    return [name, ms.toFixed(0), ratio(ms, 'ms'), cpuMs.toFixed(0), ratio(cpuMs, 'cpuMs')]
  })
  return `${versionsOf('express', 'fastify')}. Milliseconds above an empty module, median of ${starts} starts. Ratio: of Express; lower is better.

${table(['import', 'ms', 'ratio', 'CPU ms', 'ratio by CPU'], rows)}
`
}

/** Returns the median of a subject above that of the empty module. */
function over(name: string, key: keyof Start): number {
  const empty = name.startsWith('require') ? 'require: empty module' : 'empty module'
  const median = (of: string) => spread((results.get(of) ?? []).map((each) => each[key])).median
  return median(name) - median(empty)
}
