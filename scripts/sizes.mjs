// Sizes of what an application's bundle gets: node scripts/sizes.mjs, after npm run build. Minified and gzipped, KiB of 1024 bytes.
import { readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const manifest = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8'))

const dependencies = Object.keys(manifest.dependencies)

/** What is imported from where, the most KiB that it may come to without dependencies, and the dependencies that it may bring. */
const BUDGETS = [
  ['parsePrefer', 'longhaul', 1.5],
  ['httpError', 'longhaul', 2.5],
  ['router', 'longhaul', 5],
  ['createTasks, defineTask, taskEndpoints', 'longhaul', 25, 'secure-json-parse'],
  ['content', 'longhaul', 11],
  ['ndjsonUpload, ndjsonDownload', 'longhaul', 17, 'fast-json-stringify', 'secure-json-parse'],
  ['bulkCreate, bulkUpdate', 'longhaul', 23, 'secure-json-parse'],
  ['collection', 'longhaul', 18, 'secure-json-parse'],
  ['versions', 'longhaul', 11, 'semver'],
  ['authenticate, rateLimit', 'longhaul', 10, 'lru-cache', 'ipaddr.js'],
  ['*', 'longhaul', 80, ...dependencies.filter((each) => each !== 'standardwebhooks')],
  ['*', 'longhaul/memory', 7, 'lru-cache'],
  ['*', 'longhaul/node', 15, 'ipaddr.js'],
  ['*', 'longhaul/fetch', 9],
  ['*', 'longhaul/fastify', 11],
  ['*', 'longhaul/koa', 11],
  ['*', 'longhaul/files', 8],
  ['*', 'longhaul/redis', 4],
  ['*', 'longhaul/bullmq', 3, 'bullmq'],
  ['*', 'longhaul/callbacks', 9, 'ipaddr.js', 'standardwebhooks'],
  ['*', 'longhaul/client', 11],
  ['*', 'longhaul/conformance', 14]
]

/** Bundles each of them; gives its size, its budget and what is wrong with it. */
export async function measure() {
  return Promise.all(BUDGETS.map(async ([names, from, budget, ...allowed]) => {
    const { import: { default: file } } = manifest.exports[from.replace('longhaul', '.')]
    const path = JSON.stringify(resolve(root, file))
    const { outputFiles: [{ contents: bytes }], metafile } = await build({
      stdin: { contents: names === '*' ? `export * from ${path}` : `export { ${names} } from ${path}`, resolveDir: root },
      bundle: true, minify: true, write: false, metafile: true, format: 'esm', platform: 'node', target: 'node20', packages: 'external', legalComments: 'none'
    })
    const [{ imports }] = Object.values(metafile.outputs)
    const packages = [...new Set(imports.map((each) => each.path).filter((each) => !isBuiltin(each)).map((each) => each.split('/')[0]))]
    const kib = gzipSync(bytes, { level: 9 }).length / 1024
    const strays = packages.filter((each) => !allowed.includes(each))
    const faults = [
      ...kib > budget ? [`${kib.toFixed(1)} KiB, and ${budget} are allowed`] : [],
      ...strays.length > 0 ? [`it brings ${strays.join(', ')}`] : []
    ]
    return { title: names === '*' ? `all of ${from}` : names, kib, budget, packages, faults }
  }))
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  for (const { title, kib, budget, packages, faults } of await measure()) {
    console.log(`${kib.toFixed(1).padStart(6)} of ${String(budget).padStart(4)} KiB  ${[title, ...packages].join(' + ')}`)
    for (const fault of faults) console.error(`✖ ${title}: ${fault}`)
    if (faults.length > 0) process.exitCode = 1
  }
}
