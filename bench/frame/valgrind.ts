// Finds valgrind: on PATH, or on Debian fetched into node_modules/.cache, with nothing installed.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { delimiter, join, resolve } from 'node:path'

const cache = resolve(import.meta.dirname, '../../node_modules/.cache')
const fetched = join(cache, 'valgrind')
const MISSING = 'The gate counts instructions with valgrind, which is not here. Install valgrind; on Debian, apt-get update is enough.'

/**
 * Returns the environment in which `valgrind` and `callgrind_control` run.
 *
 * @throws {Error} there is no valgrind, and it cannot be fetched
 */
export function valgrindEnvironment(): NodeJS.ProcessEnv {
  if (runs(process.env)) return process.env
  if (!existsSync(fetched)) fetch()
  const environment = {
    ...process.env,
    PATH: `${join(fetched, 'usr/bin')}${delimiter}${process.env['PATH'] ?? ''}`,
    VALGRIND_LIB: join(fetched, 'usr/libexec/valgrind'),
  }
  if (!runs(environment)) throw new Error(MISSING)
  return environment
}

function runs(environment: NodeJS.ProcessEnv): boolean {
  return spawnSync('valgrind', ['--version'], { env: environment, stdio: 'ignore' }).status === 0
}

function fetch(): void {
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'valgrind-'))
  try {
    execFileSync('apt-get', ['download', '-q', 'valgrind'], { cwd: folder, stdio: 'pipe', timeout: 60_000 })
    for (const name of readdirSync(folder)) execFileSync('dpkg', ['-x', join(folder, name), folder], { stdio: 'pipe' })
    renameSync(folder, fetched)
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw new Error(MISSING, { cause: error })
  }
}
