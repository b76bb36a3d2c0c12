// Checks what `npm pack` puts into the tarball.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { check, manifest, root } from './run.mjs'

const ALLOWED = [
  /^dist\/esm\/(?:src|adapters|conformance)\/[\w/-]+\.js$/,
  /^dist\/node\/[\w-]+\.js$/,
  /^dist\/cjs\/[\w-]+\.cjs$/,
  /^dist\/types\/[\w.-]+\.d\.c?ts$/,
  /^docs\/(?:guide\/[\w-]+|README|errors|guarantees)\.md$/,
  /^docs\/(?:flow|states|console[\w-]*|(?:upload|progress)-[\w-]+)\.(?:png|svg)$/,
  /^(?:package\.json|README\.md|LICENSE|CHANGELOG\.md)$/
]
/** The files of the repository that pages link to, as docs/README.md says. On npm, links of README lead there. */
const IN_REPOSITORY = [
  /^(?:src|conformance|test|examples|docs\/adr)\//,
  /^docs\/(?:SPEC|bench|benchmarks|soak)\.md$/,
  /^CONTRIBUTING\.md$/
]
const PAPERS = ['package.json', 'README.md', 'LICENSE', 'CHANGELOG.md']

/** @param {string[]} packed paths in the tarball */
export function checkPacked(packed) {
  none('packed: nothing but the build and the docs of users',
    packed.filter((path) => !ALLOWED.some((pattern) => pattern.test(path))))
  none('packed: README, LICENSE and CHANGELOG', PAPERS.filter((path) => !packed.includes(path)))

  // node_modules has the pages, so their links must lead to packed files, or to named parts of the repository.
  const links = packed.filter((path) => path.endsWith('.md')).flatMap(linksOf)
  check('packed: pages have links', links.length > 0, 'there are none')
  none(`packed: what pages link to, ${links.length} links`, links
    .filter(({ to }) => !(IN_REPOSITORY.some((pattern) => pattern.test(to)) && existsSync(join(root, to))))
    .filter(({ to }) => !packed.some((file) => file === to || file.startsWith(`${to}/`)))
    .map(({ from, to }) => `${from}: ${to}`))

  const named = [manifest.main, manifest.module, manifest.types, manifest.bin, manifest.exports, manifest.typesVersions].flatMap(paths)
  none('packed: every file that package.json names', named.filter((path) => !packed.includes(path.replace(/^\.\//, ''))))

  const code = packed.filter((path) => /\.c?js$/.test(path) && path.startsWith('dist/'))
  none('packed: no source map that is not there', code.filter((path) => text(path).includes('sourceMappingURL')))
  none('packed: no slow helpers', code.filter((path) => /_optionalChain|_nullishCoalesce/.test(text(path))))
}

/** Returns the links of a page to files, as paths from the root. */
function linksOf(page) {
  const prose = text(page).replaceAll(/^```[^]*?^```/gm, '')
  return [...prose.matchAll(/\]\((?![\w+]+:|#)([^)#]+)/g)].map(([, path]) => ({ from: page, to: join(dirname(page), path) }))
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
