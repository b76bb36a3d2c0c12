import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { readdir, realpath, rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { performance } from 'node:perf_hooks'

/** Longest path of a socket in bytes that Linux, macOS and BSD accept. Node cuts a longer one off. */
const MAX_SOCKET_PATH = 100

/** Name of this process in its locks. The start time differs between containers, in which all ids are 1. */
const HOLDER = `${String(process.pid)}-${String(Math.round(performance.timeOrigin))}`

/**
 * Reserves a folder of PGlite for this process, until the process ends. PGlite itself does not notice a
 * second process: the two overwrite each other's data. So reserve the folder before PGlite opens it.
 *
 * The lock is a Unix socket beside the folder, such as `data.lock-4711-1795747375123`. Another process on the
 * same machine sees it, also from another container that has the folder and its parent mounted. If the
 * process is killed, the lock ends with it. On Windows, nothing is locked.
 *
 * @param folder - path of the folder; it need not exist yet, but its parent must
 * @returns the path as it was passed
 * @throws {Error} Another process has the folder, or the lock cannot be created.
 *
 * @example
 * import { PGlite } from '@electric-sql/pglite'
 * import { createTasks, defineTask } from 'longhaul'
 * import { lockFolder, postgres } from 'longhaul/postgres'
 *
 * const report = defineTask({ name: 'report', run: () => ({ message: 'Done.' }) })
 * const pool = await PGlite.create(await lockFolder('./data'))
 * const tasks = createTasks({ ...postgres({ pool }), definitions: [report] })
 */
export async function lockFolder(folder: string): Promise<string> {
  let holder: string | undefined
  try {
    holder = await holderOf(folder)
  } catch (cause) {
    const { message } = cause as Error
    throw new Error(`No lock can be created beside the folder ${folder}: ${message}`, { cause })
  }
  if (holder !== undefined) throw new Error(`${inUse(folder, holder)} Stop that process first`)
  return folder
}

/** Says that another process has a folder. */
export function inUse(folder: string, holder: string): string {
  return `The folder ${folder} is in use by process ${holder}. Two processes on one folder of PGlite `
    + 'overwrite each other\'s data.'
}

/**
 * Locks the folder for this process, unless another one has it. Resolves to the id of that process, or
 * to `undefined` if this process has the folder.
 *
 * @throws {Error} The lock cannot be created.
 */
export async function holderOf(folder: string): Promise<string | undefined> {
  if (process.platform === 'win32') return undefined
  const path = await realpath(folder).catch(() => resolve(folder))
  const parent = dirname(path)
  const prefix = `${basename(path)}.lock-`
  // Locks first, and looks for others afterwards. So of two processes that start together, at least one sees the other.
  const unlock = await lock(join(parent, prefix + HOLDER))
  for (const name of await readdir(parent)) {
    if (!name.startsWith(prefix) || name === prefix + HOLDER) continue
    if (await isHeld(socketPath(join(parent, name)))) {
      unlock()
      return name.slice(prefix.length).split('-')[0]
    }
    await rm(join(parent, name), { force: true })
  }
  return undefined
}

/** Listens at the path until the process ends, and returns a function that stops it earlier. */
async function lock(path: string): Promise<() => void> {
  const server = createServer((socket) => { socket.destroy() }).unref()
  server.listen({ path: socketPath(path), exclusive: true })
  try {
    await once(server, 'listening')
  } catch (error) {
    // This process has the lock already.
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return () => undefined
    throw error
  }
  server.on('error', () => undefined)
  process.once('exit', () => { rmSync(path, { force: true }) })
  return () => { server.close() }
}

/** Returns the shorter of the absolute and the relative path. */
function socketPath(path: string): string {
  const short = [path, relative('', path)].sort((a, b) => a.length - b.length)[0] ?? path
  if (Buffer.byteLength(short) > MAX_SOCKET_PATH) throw new Error('its path is too long')
  return short
}

/** Returns whether a process listens at the socket. Any error but these two leaves that open. */
function isHeld(path: string): Promise<boolean> {
  return new Promise((settle) => {
    const socket = connect(path, () => {
      socket.destroy()
      settle(true)
    })
    socket.on('error', ({ code }: NodeJS.ErrnoException) => {
      settle(code !== 'ECONNREFUSED' && code !== 'ENOENT')
    })
  })
}
