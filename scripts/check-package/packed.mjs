// Checks what `npm pack` puts into the tarball.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { check, manifest, root } from './run.mjs'

const ALLOWED = [
  /^dist\/esm\/(?:src|adapters)\/[\w/-]+\.js$/,
  /^dist\/node\/[\w-]+\.js$/,
  /^dist\/cjs\/[\w-]+\.cjs$/,
  /^dist\/types\/[\w.-]+\.d\.c?ts$/,
  /^docs\/(?:adr\/|guide\/)?[\w.-]+\.(?:md|png|svg)$/,
  /^examples\/.+$/,
  /^(?:package\.json|README\.md|LICENSE|CHANGELOG\.md|CONTRIBUTING\.md)$/
]
const PAPERS = ['package.json', 'README.md', 'LICENSE', 'CHANGELOG.md']

/** @param {string[]} packed paths in the tarball */
export function checkPacked(packed) {
  none('packed: nothing but the build, the docs and the examples',
    packed.filter((path) => !ALLOWED.some((pattern) => pattern.test(path))))
  none('packed: README, LICENSE and CHANGELOG', PAPERS.filter((path) => !packed.includes(path)))

  // npm shows README, and node_modules has it, so its links must lead to packed files.
  const links = [...text('README.md').matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, path]) => path)
  check('packed: README has links', links.length > 0, 'there are none')
  none(`packed: what README links to, ${links.length} links`,
    links.filter((path) => !packed.some((file) => file === path || file.startsWith(`${path}/`))))

  const named = [manifest.main, manifest.module, manifest.types, manifest.bin, manifest.exports, manifest.typesVersions].flatMap(paths)
  none('packed: every file that package.json names', named.filter((path) => !packed.includes(path.replace(/^\.\//, ''))))

  const code = packed.filter((path) => /\.c?js$/.test(path) && path.startsWith('dist/'))
  none('packed: no source map that is not there', code.filter((path) => text(path).includes('sourceMappingURL')))
  none('packed: no slow helpers', code.filter((path) => /_optionalChain|_nullishCoalesce/.test(text(path))))
}

function none(title, found) {
  check(title, found.length === 0, found.join(', '))
}

/** Returns the paths in a part of package.json. */
function paths(part) {
  return typeof part === 'string' ? [part] : Object.values(part).flatMap(paths)
}

function text(path) {
  return readFileSync(join(root, path), 'utf8')
}
