// The sources of the console, which decide what its pictures show.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..', '..')
const FOLDERS = ['adapters/console/page', 'examples/reference-server/console']

/** The pictures, in `docs`. */
export const PICTURES = ['console.png', 'console-operator.png', 'upload-paused.png']

/** Where `npm run pictures` writes the digest of the sources. */
export const DIGEST_FILE = join(root, 'test/pictures/digest.txt')

/** Returns the SHA-256 of the console's files, in the order of their paths. */
export function digestOfConsole(): string {
  const hash = createHash('sha256')
  const files = FOLDERS.flatMap((folder) => (
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  ))
  const paths = files.map(({ parentPath, name }) => join(parentPath, name)).sort()
  for (const path of paths) hash.update(path.slice(root.length)).update('\0').update(readFileSync(path)).update('\0')
  return hash.digest('hex')
}
