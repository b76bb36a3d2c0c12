// Prints the size of each part in an application's bundle: node scripts/sizes.mjs, after npm run build. Minified and gzipped, in KiB of 1024 bytes.
import { readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const manifest = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8'))

const dependencies = Object.keys(manifest.dependencies)

/** The parts that are measured: names, entry point, and the dependencies that they may bring. */
const PARTS = [
  ['parsePrefer', 'longhaul/http'],
  ['httpError', 'longhaul'],
  ['router', 'longhaul'],
  ['createTasks, defineTask, taskEndpoints', 'longhaul', 'ipaddr.js', 'secure-json-parse'],
  ['exportTask', 'longhaul/export', 'fast-json-stringify', 'secure-json-parse'],
  ['resumableUpload', 'longhaul/uploads', 'ipaddr.js'],
  ['content', 'longhaul/content'],
  ['ndjsonUpload, ndjsonDownload', 'longhaul/ndjson', 'fast-json-stringify', 'ipaddr.js', 'secure-json-parse'],
  ['*', 'longhaul/csv', 'secure-json-parse'],
  ['*', 'longhaul/azure'],
  ['bulkCreate, bulkUpdate', 'longhaul/bulk', 'ipaddr.js', 'secure-json-parse'],
  ['collection', 'longhaul/resources', 'ipaddr.js', 'secure-json-parse'],
  ['versions', 'longhaul/versions', 'semver'],
  ['authenticate, rateLimit', 'longhaul/policies', 'lru-cache', 'ipaddr.js'],
  ['*', 'longhaul', ...dependencies.filter((each) => !['standardwebhooks'].includes(each))],
  ['*', 'longhaul/memory', 'lru-cache'],
  ['*', 'longhaul/node', 'ipaddr.js'],
  ['*', 'longhaul/fetch'],
  ['*', 'longhaul/fastify', 'ipaddr.js'],
  ['*', 'longhaul/koa', 'ipaddr.js'],
  ['*', 'longhaul/files', 'lru-cache'],
  ['*', 'longhaul/redis'],
  ['*', 'longhaul/bullmq'],
  ['*', 'longhaul/mcp', 'ipaddr.js', 'secure-json-parse'],
  ['*', 'longhaul/console', 'ipaddr.js', 'secure-json-parse'],
  ['*', 'longhaul/callbacks', 'ipaddr.js', 'standardwebhooks'],
  ['createClient', 'longhaul/client'],
  ['*', 'longhaul/client'],
  ['*', 'longhaul/partial', 'ipaddr.js'],
  ['*', 'longhaul/engine'],
  ['*', 'longhaul/conformance']
]

/** Budgets in KiB without dependencies, for parts that browsers load. On a server the size of a bundle does not matter. */
const BUDGETS = { 'longhaul/client': 17 }

/** Bundles each part. Returns its size, its budget if it has one, and its faults. */
export async function measure() {
  return Promise.all(PARTS.map(async ([names, from, ...allowed]) => {
    const budget = BUDGETS[from]
    const { import: { module: file } } = manifest.exports[from.replace('longhaul', '.')]
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
      ...budget !== undefined && kib > budget ? [`${kib.toFixed(1)} KiB, and ${budget} are allowed`] : [],
      ...strays.length > 0 ? [`it brings ${strays.join(', ')}`] : []
    ]
    return { title: names === '*' ? `all of ${from}` : names, kib, budget, packages, faults }
  }))
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  for (const { title, kib, budget, packages, faults } of await measure()) {
    console.log(`${kib.toFixed(1).padStart(6)} KiB${budget === undefined ? '' : ` of ${budget}`}  ${[title, ...packages].join(' + ')}`)
    for (const fault of faults) console.error(`✖ ${title}: ${fault}`)
    if (faults.length > 0) process.exitCode = 1
  }
}
