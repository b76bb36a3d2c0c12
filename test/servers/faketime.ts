// Real clock skew: a library in front of the system's clock, on Debian fetched into
// node_modules/.cache, with nothing installed.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'

const cache = join(import.meta.dirname, '..', '..', 'node_modules', '.cache')
const NAME = 'libfaketime.so.1'

/**
 * The environment of a process whose wall clock is off by `seconds`. Its monotonic clock, and times
 * of files, are right.
 */
export function skewedBy(seconds: number): Record<string, string> {
  return { ...preload(), FAKETIME: `${seconds < 0 ? '-' : '+'}${String(Math.abs(seconds))}` }
}

/** The environment of a process whose wall clock is off by what is in a file, such as `-3600`, at any time. */
export function skewedByFile(path: string): Record<string, string> {
  return { ...preload(), FAKETIME_TIMESTAMP_FILE: path, FAKETIME_NO_CACHE: '1' }
}

function preload(): Record<string, string> {
  return { LD_PRELOAD: library(), FAKETIME_DONT_FAKE_MONOTONIC: '1', NO_FAKE_STAT: '1', FAKETIME_DONT_RESET: '1' }
}

/** Throws one line that says what to install when there is no way to get it. */
function library(): string {
  return find('/usr/lib') ?? find('/usr/local/lib') ?? find(join(cache, 'faketime', 'usr', 'lib')) ?? fetchFromDebian()
}

function find(folder: string): string | undefined {
  if (!existsSync(folder)) return undefined
  return readdirSync(folder)
    .flatMap((name) => [join(folder, name, 'faketime', NAME), join(folder, name, NAME)])
    .find(existsSync)
}

/** Several test processes may do this at once: each in a folder of its own, and the first rename wins. */
function fetchFromDebian(): string {
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'faketime-'))
  try {
    execFileSync('apt-get', ['download', '-q', 'libfaketime'], { cwd: folder, stdio: 'pipe', timeout: 60_000 })
    for (const name of readdirSync(folder))
      if (name.endsWith('.deb')) execFileSync('dpkg', ['-x', join(folder, name), folder], { stdio: 'pipe' })
    try {
      renameSync(folder, join(cache, 'faketime'))
    } catch {
      // Another test process was first.
    }
  } catch (error) {
    throw new Error('These tests need libfaketime: install it (apt-get update, for one that is fetched)', {
      cause: error,
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  const found = find(join(cache, 'faketime', 'usr', 'lib'))
  if (found === undefined) throw new Error('These tests need libfaketime: install it')
  return found
}
