// Folders that another user of the machine has made, or may write to.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readdir, rename, rm, stat, symlink } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test, type TestContext } from 'node:test'
import { FolderBlobs } from 'longhaul/files'

const isRoot = process.geteuid?.() === 0
/** A user and a group that this process does not have. */
const OTHER = 54_321
const own = process as Required<Pick<NodeJS.Process, 'geteuid' | 'getegid' | 'getgroups'>>
const TTL = { ttlMs: 60_000 }

let base: string
/** All users may write here, as in the folder for temporary files. */
let sticky: string
before(async () => {
  base = await mkdtemp(join(tmpdir(), 'longhaul-users-'))
  await chmod(base, 0o755)
  sticky = await made(0o1777)
})
after(() => rm(base, { recursive: true, force: true }))

const path = (): string => join(base, randomBytes(6).toString('hex'))

async function made(mode: number, folder = path()): Promise<string> {
  await mkdir(folder)
  await chmod(folder, mode)
  return folder
}

/**
 * Another user runs a command of the shell. Only root can become another user: without root, this
 * user runs the command,
 * and then the process and its new files look as if they were of another one.
 */
function otherUser(t: TestContext, script: string, ...args: readonly string[]): void {
  const become = isRoot ? ['setpriv', '--reuid', String(OTHER), '--regid', String(OTHER), '--clear-groups'] : []
  const [command = '', ...rest] = [...become, 'sh', '-ec', `umask 0; ${script}`, 'sh', ...args]
  execFileSync(command, rest)
  if (isRoot) return
  t.mock.method(own, 'geteuid', () => OTHER)
  newFilesOf(t, OTHER)
}

/** Files that this process creates say that they belong to this user. */
function newFilesOf(t: TestContext, uid: number): void {
  const { fstatSync } = fs
  const mock = t.mock.method(fs, 'fstatSync', (file: number) => Object.assign(fstatSync(file), { uid }))
  syncBuiltinESMExports()
  t.after(() => {
    mock.mock.restore()
    syncBuiltinESMExports()
  })
}

async function accepts(folder: string): Promise<void> {
  const blobs = new FolderBlobs(folder)
  await blobs.put('key', text('abc'), TTL)
  assert.equal((await blobs.stat('key'))?.size, 3)
  await blobs.close()
}

function rejects(folder: string, ...said: readonly (RegExp | string)[]): void {
  assert.throws(() => new FolderBlobs(folder), (error: Error) => {
    assert.equal(error.name, 'TypeError')
    for (const part of [folder, ...said]) {
      assert.ok(part instanceof RegExp ? part.test(error.message) : error.message.includes(part), error.message)
    }
    return true
  })
}

async function* text(value: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(value)
}

describe('FolderBlobs and other users of the machine', () => {
  test('a folder that another user has created is rejected', (t) => {
    const folder = join(sticky, 'made-first')
    otherUser(t, 'mkdir "$1"', folder)
    rejects(folder, isRoot ? `the user ${OTHER}` : `the user ${process.getuid?.()}`, /change the owner/)
  })

  test('a folder that another user has created and closed to others is rejected', (t) => {
    const folder = join(sticky, 'closed')
    otherUser(t, 'mkdir -m 0755 "$1"', folder)
    rejects(folder, /mode 0755/)
  })

  test('a link that another user has created is rejected, whatever its target is', async (t) => {
    const target = await made(0o700)
    const [link, dangling] = [join(sticky, 'link'), join(sticky, 'dangling')]
    otherUser(t, 'ln -s "$1" "$2"; ln -s "$1/no" "$3"', target, link, dangling)
    rejects(link, /symbolic link/, target)
    rejects(dangling, /cannot be created/)
    assert.deepEqual(await readdir(target), [])
  })

  test('a link of this user is rejected, even with a slash at its end', async () => {
    const target = await made(0o700)
    const link = path()
    await symlink(target, link)
    for (const each of [link, `${link}/`, `${link}/.`]) assert.throws(() => new FolderBlobs(each), /symbolic link/)
  })

  for (const mode of [0o777, 0o1777, 0o2777, 0o702]) {
    test(`a folder with the mode ${mode.toString(8)} is rejected`, async () => {
      const folder = await made(mode)
      rejects(folder, `mode ${mode.toString(8).padStart(4, '0')}`, `chmod go-w ${folder}`)
      await chmod(folder, mode & ~0o022)
      await accepts(folder)
    })
  }

  test('a folder that a group of this process may write to is accepted', async () => {
    await accepts(await made(0o2770))
  })

  test('a folder that another group may write to is rejected', async (t) => {
    const folder = await made(0o770)
    if (isRoot) await chown(folder, 0, OTHER)
    else {
      t.mock.method(own, 'getegid', () => OTHER)
      t.mock.method(own, 'getgroups', () => [OTHER])
    }
    rejects(folder, /the group \d+ may write/, /mode 0770/, `chmod g-w ${folder}`)
  })

  test('a folder below a folder of another user is rejected if all users may write above it', async (t) => {
    const above = join(sticky, 'above')
    otherUser(t, 'mkdir "$1"', above)
    assert.throws(() => new FolderBlobs(join(above, 'blobs')), (error: Error) => (
      error instanceof TypeError && error.message.includes(`may replace ${isRoot ? `${above} (of the user` : ''}`)
    ))
  })

  test('a folder that is reached through a link of another user is rejected', async (t) => {
    const home = await made(0o700)
    const link = join(sticky, 'way')
    otherUser(t, 'ln -s "$1" "$2"', home, link)
    assert.throws(() => new FolderBlobs(join(link, 'blobs')), TypeError)
  })

  test('a folder that is reached through a link to a folder that others may replace is rejected', async (t) => {
    const above = join(sticky, 'target')
    const link = path()
    await symlink(above, link)
    otherUser(t, 'mkdir "$1"', above)
    assert.throws(() => new FolderBlobs(join(link, 'blobs')), TypeError)
  })

  test('a folder that is reached through a link of this user is accepted', async () => {
    const link = path()
    await symlink(await made(0o755), link)
    await accepts(join(link, 'blobs'))
  })

  test('a new folder in the folder for temporary files is accepted, and no other user can replace it', async (t) => {
    const folder = join(sticky, 'own', 'blobs')
    await accepts(folder)
    assert.equal((await stat(folder)).mode & 0o777, 0o700)
    assert.equal((await stat(join(sticky, 'own'))).mode & 0o777, 0o700)
    if (isRoot) assert.throws(() => { otherUser(t, 'mv "$1" "$1.away" 2>&1', join(sticky, 'own')) })
  })

  test('a folder is rejected if all users may rename it, because a user other than root owns its open parent', async () => {
    const parent = await made(0o777)
    if (isRoot) await chown(parent, OTHER, OTHER)
    assert.throws(() => new FolderBlobs(join(parent, 'blobs')), /another user may replace/)
  })

  if (isRoot) {
    test('a folder below a volume that root has opened to all users is accepted, as in a container', async () => {
      const volume = await made(0o777)
      rejects(volume, `name a folder below it, such as ${volume}/blobs`)
      await accepts(join(volume, 'blobs'))
    })
  }

  test('a folder whose file server gives all files to its owner is accepted', async (t) => {
    const folder = await made(0o700)
    if (isRoot) {
      await chown(folder, OTHER, OTHER)
      rejects(folder, /belongs to the user 54321/)
      newFilesOf(t, OTHER)
    } else t.mock.method(own, 'geteuid', () => OTHER)
    await accepts(folder)
  })
})

describe('FolderBlobs and names in the folder that are not files', () => {
  for (const [what, make] of [
    [
      'a link to a blob elsewhere',
      async (name: string, away: string) => {
        await rename(name, away)
        await symlink(away, name)
      },
    ],
    [
      'a link to nothing',
      async (name: string, away: string) => {
        await rm(name)
        await symlink(`${away}.no`, name)
      },
    ],
    [
      'a pipe without a writer',
      async (name: string) => {
        await rm(name)
        execFileSync('mkfifo', [name])
      },
    ],
  ] as const) {
    test(`${what} is not a blob, and a new blob replaces it`, async () => {
      const [folder, away] = [path(), path()]
      const blobs = new FolderBlobs(folder)
      await blobs.put('key', text('abc'), TTL)
      const [name = ''] = await readdir(folder)
      await make(join(folder, name), away)
      assert.equal(await blobs.stat('key'), undefined)
      assert.equal(await blobs.open('key'), undefined)
      assert.equal(await blobs.renew('key', 120_000), undefined)
      await blobs.sweep()
      assert.equal((await blobs.put('key', text('abcd'), TTL)).size, 4)
      assert.equal((await blobs.stat('key'))?.size, 4)
      if (what.endsWith('elsewhere')) assert.equal((await stat(away)).size, 64 + 3)
      await blobs.close()
    })
  }
})
