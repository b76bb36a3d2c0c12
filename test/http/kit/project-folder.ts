import { mkdtemp, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root } from './process.js'

/** Creates a folder outside of the repository, in which programs find its packages. Remove it afterwards. */
export async function projectFolder(name: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `longhaul-${name}-`))
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  return folder
}
