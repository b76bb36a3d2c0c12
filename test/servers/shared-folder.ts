// Folders below the temporary folder that all test processes share, each filled once.
import {
  chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'

/** PostgreSQL and PgBouncer refuse to run as root. Options for `spawn` that run them as nobody. */
export const NOBODY: { uid?: number; gid?: number } =
  process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}

/** Age in milliseconds after which a lock belongs to nobody. A download takes seconds. */
const STALE_LOCK_MS = 180_000

/**
 * Returns the folder of this name, which every user can read. If there is none, `fill` fills it
 * first. Of several processes one fills it, and the others wait. A process that is killed meanwhile
 * leaves no incomplete folder under the name.
 */
export async function sharedFolder(
  name: string,
  fill: (folder: string) => Promise<void> | void,
): Promise<string> {
  const root = join(tmpdir(), `longhaul-servers-${String(userInfo().uid)}`)
  mkdirSync(root, { recursive: true, mode: 0o755 })
  if (process.getuid !== undefined && statSync(root).uid !== process.getuid()) {
    throw new Error(`${root} belongs to another user: remove it, or set TMPDIR`)
  }
  const folder = join(root, name)
  if (existsSync(folder)) return folder
  const unlock = await lock(join(root, `${name}.lock`))
  const partial = `${folder}.partial`
  try {
    if (existsSync(folder)) return folder
    rmSync(partial, { recursive: true, force: true })
    mkdirSync(partial)
    await fill(partial)
    if (NOBODY.uid !== undefined) letEveryoneRead(partial)
    renameSync(partial, folder)
  } finally {
    rmSync(partial, { recursive: true, force: true })
    unlock()
  }
  return folder
}

async function lock(file: string): Promise<() => void> {
  for (;;) {
    try {
      writeFileSync(file, String(process.pid), { flag: 'wx' })
      return () => { rmSync(file, { force: true }) }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      if (isStale(file)) rmSync(file, { force: true })
      else await wait(50)
    }
  }
}

function isStale(file: string): boolean {
  try {
    if (Date.now() - statSync(file).mtimeMs > STALE_LOCK_MS) return true
    const owner = Number(readFileSync(file, 'utf8'))
    if (owner > 0) process.kill(owner, 0)
    return false
  } catch (error) {
    // Removed meanwhile, or the process that wrote it has ended.
    return (error as NodeJS.ErrnoException).code === 'ESRCH'
  }
}

/** Leaves folders alone that belong to nobody: a server is strict about the rights of its data. */
function letEveryoneRead(path: string): void {
  const { uid, mode } = statSync(path)
  if (uid === NOBODY.uid) return
  chmodSync(path, mode | 0o555)
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    const child = join(path, entry.name)
    if (entry.isDirectory()) letEveryoneRead(child)
    else if (entry.isFile()) {
      const bits = statSync(child).mode
      chmodSync(child, bits | ((bits & 0o100) === 0 ? 0o444 : 0o555))
    }
  }
}
