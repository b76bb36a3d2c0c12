import { execFile } from 'node:child_process'
import { chownSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { PostgresBinaries } from './postgres-binary.js'
import { NOBODY, sharedFolder } from './shared-folder.js'

const run = promisify(execFile)

/** Superuser of every server of the tests. Needs no password. */
export const POSTGRES_USER = 'longhaul'

/** Creates a temporary folder that belongs to the user of the server. */
export function serverFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-postgres-'))
  if (NOBODY.uid !== undefined && NOBODY.gid !== undefined) chownSync(folder, NOBODY.uid, NOBODY.gid)
  return folder
}

/**
 * Writes the data of a new server to `data`. `initdb` runs once for each version, and each server
 * gets a copy. The copies have one system identifier, so that one of them can be a replica.
 */
export async function newData(binaries: PostgresBinaries, data: string): Promise<void> {
  const template = await sharedFolder(`postgres-data-${binaries.version}`, async (folder) => {
    if (NOBODY.uid !== undefined && NOBODY.gid !== undefined) chownSync(folder, NOBODY.uid, NOBODY.gid)
    await run(join(binaries.folder, 'initdb'), [
      '-D', join(folder, 'data'), '-U', POSTGRES_USER, '-A', 'trust', '-E', 'UTF8', '--no-sync', '--locale=C',
    ], { ...NOBODY, cwd: folder })
  })
  await run('cp', ['-Rp', join(template, 'data'), data], NOBODY)
}
