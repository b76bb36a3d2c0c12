import { randomBytes } from 'node:crypto'
import {
  closeSync, fstatSync, lstatSync, openSync, readlinkSync, realpathSync, rmSync, statSync,
  type Stats,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'

const ALL_MAY_WRITE = 0o002
const GROUP_MAY_WRITE = 0o020
/** In a folder with this bit, only its owner and the owner of an entry may remove the entry. */
const STICKY = 0o1000

/**
 * Checks that no other user can add files to a folder, or put another folder in its place. Trusts
 * root, and the groups of this process.
 *
 * Does nothing on Windows, which has other permissions.
 *
 * @param folder - absolute path of an existing folder
 * @throws {TypeError} Another user may write to the folder or replace it.
 */
export function checkFolder(folder: string): void {
  const user = process.geteuid?.()
  if (user === undefined) return
  const stats = lstatSync(folder)
  if (stats.isSymbolicLink()) {
    throw new TypeError(
      `FolderBlobs: ${folder} is a symbolic link; name the folder itself: ${realpathSync(folder)}`,
    )
  }
  if (![0, user].includes(stats.uid) && !isOwnerOfNewFiles(folder, stats.uid)) {
    throw new TypeError(
      `FolderBlobs: ${folder} (mode ${modeOf(stats)}) belongs to the user ${stats.uid}, and this `
      + `process is the user ${user}; change the owner, or name a folder that does not exist yet`,
    )
  }
  checkMode(folder, stats)
  checkPlace(folder, [0, user, stats.uid])
}

function checkMode(folder: string, stats: Stats): void {
  if (allMayWrite(stats)) {
    const below = join(folder, 'blobs')
    throw new TypeError(
      `FolderBlobs: all users may write to ${folder} (mode ${modeOf(stats)}); ${
        stats.uid === 0 ? `name a folder below it, such as ${below}, or run` : 'run'
      } chmod go-w ${folder}`,
    )
  }
  if ((stats.mode & GROUP_MAY_WRITE) !== 0 && !isInGroup(stats.gid)) {
    throw new TypeError(
      `FolderBlobs: the group ${stats.gid} may write to ${folder} (mode ${modeOf(stats)}), and `
      + `this process is not in the group; add it to the group, or run chmod g-w ${folder}`,
    )
  }
}

/**
 * Checks that no other user can replace the folder, or a folder or link on the way to it. Root may
 * let all users write to a folder above, such as a volume of a container.
 */
function checkPlace(path: string, trusted: readonly number[]): void {
  const parent = dirname(path)
  if (parent === path || isHidden(parent)) return
  checkPlace(parent, trusted)
  const above = statSync(parent)
  const stats = lstatSync(path)
  const isKept = (above.mode & STICKY) !== 0 || above.uid === 0
  if (allMayWrite(above) && (!trusted.includes(stats.uid) || !isKept)) {
    throw new TypeError(
      `FolderBlobs: another user may replace ${path} (of the user ${stats.uid}), because all users `
      + `may write to ${parent} (mode ${modeOf(above)}); name a folder elsewhere, or run `
      + `chmod go-w ${parent}`,
    )
  }
  if (stats.isSymbolicLink()) {
    checkPlace(resolve(realpathSync(parent), readlinkSync(path)), trusted)
  }
}

/** The permission model of Node may hide the folders above. */
function isHidden(path: string): boolean {
  return (process as Partial<typeof process>).permission?.has('fs.read', path) === false
}

function allMayWrite({ mode }: Stats): boolean {
  return (mode & ALL_MAY_WRITE) !== 0
}

/**
 * Some file servers make one user the owner of all new files of a client, such as NFS with
 * `root_squash`.
 */
function isOwnerOfNewFiles(folder: string, uid: number): boolean {
  const path = join(folder, `${randomBytes(16).toString('hex')}.partial`)
  let file: number
  try {
    file = openSync(path, 'wx', 0o600)
  } catch {
    return false
  }
  try {
    return fstatSync(file).uid === uid
  } finally {
    closeSync(file)
    rmSync(path, { force: true })
  }
}

function isInGroup(gid: number): boolean {
  return process.getegid?.() === gid || process.getgroups?.().includes(gid) === true
}

function modeOf({ mode }: Stats): string {
  return (mode & 0o7777).toString(8).padStart(4, '0')
}
