// Records the system calls of a process: strace on PATH, or on Debian fetched into
// node_modules/.cache, with nothing installed.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'

const fetched = join(import.meta.dirname, '..', '..', 'node_modules', '.cache', 'strace')
const MISSING =
  'These tests need strace, and the right to trace a process: install strace (apt-get update, for one that is fetched)'

/** Returns the path of a strace that can trace a process of its own. Throws one line that says what to install. */
export function strace(): string {
  if (works('strace')) return 'strace'
  const file = join(fetched, 'usr', 'bin', 'strace')
  if (!existsSync(file)) fetchFromDebian()
  if (works(file)) return file
  throw new Error(MISSING)
}

function works(file: string): boolean {
  return spawnSync(file, ['-o', '/dev/null', 'true'], { stdio: 'ignore' }).status === 0
}

/** Several test processes may do this at once: each in a folder of its own, and the first rename wins. */
function fetchFromDebian(): void {
  mkdirSync(join(fetched, '..'), { recursive: true })
  const folder = mkdtempSync(`${fetched}-`)
  try {
    execFileSync('apt-get', ['download', '-q', 'strace'], { cwd: folder, stdio: 'pipe', timeout: 60_000 })
    for (const name of readdirSync(folder)) execFileSync('dpkg', ['-x', join(folder, name), folder], { stdio: 'pipe' })
    try {
      renameSync(folder, fetched)
    } catch {
      // Another test process was first.
    }
  } catch (error) {
    throw new Error(MISSING, { cause: error })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
