// Prints the structure of the package: node scripts/structure.mjs
// Its folders and what they import, cycles, widths of lines, and the path of a submission. With --path it runs a server, and
// counts the files and functions that one 202 executes (--functions: with their names).
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, posix, resolve, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { countNames } from './public-options.mjs'
import { findCycles, readImports } from './import-graph.mjs'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')

/**
 * The files that a submission over HTTP passes, in the order of reading: the handler, accepting it and creating
 * the task, the answer.
 */
const SUBMISSION = [
  'src/tasks/http/submit.ts', 'src/tasks/http/accept.ts', 'src/tasks/core/accept-task.ts',
]

const imports = readImports()
const cycles = findCycles(imports)
const folders = new Map()
const widths = []
for (const [file, targets] of imports) {
  const lines = readFileSync(join(root, file), 'utf8').split('\n')
  widths.push(...lines.map((line) => line.length))
  const name = posix.dirname(file)
  const folder = folders.get(name) ?? { files: 0, lines: 0, longest: 0, short: 0, uses: new Map() }
  folders.set(name, folder)
  folder.files++
  folder.lines += lines.length
  folder.longest = Math.max(folder.longest, lines.length)
  if (lines.length <= 40) folder.short++
  for (const target of targets) {
    const to = posix.dirname(target)
    if (to !== name) folder.uses.set(to, (folder.uses.get(to) ?? 0) + 1)
  }
}

console.log('files  lines  longest  <= 40  folder                     imports (arrows)')
for (const [name, { files, lines, longest, short, uses }] of [...folders].sort()) {
  const used = [...uses].sort((a, b) => b[1] - a[1]).map(([to, count]) => `${to.replace(/^src\//, '')} ${count}`).join(', ')
  console.log(`${String(files).padStart(5)} ${String(lines).padStart(6)} ${String(longest).padStart(8)} ${String(short).padStart(6)}  ${name.padEnd(26)} ${used}`)
}

widths.sort((a, b) => a - b)
const arrows = [...imports.values()].reduce((sum, targets) => sum + targets.length, 0)
const wide = (limit) => `${(widths.filter((width) => width > limit).length * 100 / widths.length).toFixed(1)} %`
console.log(`\n${imports.size} files, ${widths.length} lines, ${arrows} imports between files, ${cycles.length} cycles`)
console.log(`width of lines: 95 % have at most ${widths[Math.floor(widths.length * 0.95)]} columns; wider than 100: ${wide(100)}, than 120: ${wide(120)}`)
const { all, different, entries } = countNames()
console.log(`${all} public names over ${entries} entry points, ${different} different ones`)
for (const cycle of cycles) console.log(`cycle: ${cycle.join(', ')}`)

console.log('\nThe path of a submission, top to bottom:')
for (const file of SUBMISSION) {
  const text = readFileSync(join(root, file), 'utf8')
  console.log(`${String(text.split('\n').length).padStart(5)} lines  ${file}`)
}

if (process.argv.includes('--path')) {
  const script = join(root, 'scripts/accept-path.mjs')
  const args = ['--import', 'tsx', script, ...process.argv.slice(2)]
  console.log(`\n${execFileSync(process.execPath, args, { cwd: root, encoding: 'utf8' })}`)
}
