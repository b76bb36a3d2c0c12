// The sources of the console and of the page of a guide, which decide what the pictures show.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { blocks } from '../http/kit/doc-page.js'

const root = join(import.meta.dirname, '..', '..')
const FOLDERS = ['adapters/console/page', 'examples/reference-server/console']

const guide = readFileSync(join(root, 'docs/guide/show-progress.md'), 'utf8')

/** The page of the guide "Show progress in a web page". */
export const guidePage = { script: blocks(guide, 'js')[0] ?? '', markup: blocks(guide, 'html')[0] ?? '' }

/** The pictures, in `docs`. */
export const PICTURES = ['console.png', 'console-operator.png', 'upload-paused.png', 'progress-page.png']

/** Where `npm run pictures` writes the digest of the sources. */
export const DIGEST_FILE = join(root, 'test/pictures/digest.txt')

/** Returns the SHA-256 of the console's files, in the order of their paths, and of the page of the guide. */
export function digestOfPages(): string {
  const hash = createHash('sha256')
  const files = FOLDERS.flatMap((folder) => (
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  ))
  const paths = files.map(({ parentPath, name }) => join(parentPath, name)).sort()
  for (const path of paths) hash.update(path.slice(root.length)).update('\0').update(readFileSync(path)).update('\0')
  for (const text of [guidePage.script, guidePage.markup]) hash.update(text).update('\0')
  return hash.digest('hex')
}
