// The entry points of the package: each is the index of one folder. Read by the build and by the tests.
import { existsSync } from 'node:fs'
import { dirname, posix, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')

const FOLDERS = [
  'bulk', 'ndjson', 'csv', 'azure', 'export', 'uploads', 'partial', 'operators', 'content', 'resources', 'policies', 'versions', 'openapi', 'callbacks', 'http', 'stores', 'engine',
  'client', 'conformance', 'testing', 'memory', 'redis', 'postgres', 'files', 's3', 'node', 'fetch', 'fastify', 'koa', 'stream-json', 'cron', 'opentelemetry',
  'nestjs', 'sqlite', 'bullmq', 'mcp', 'console'
]

/**
 * The source of each entry point by its name in the build: `index` for `longhaul`, `bulk` for `longhaul/bulk`.
 * @type {Record<string, string>}
 */
export const ENTRY_POINTS = {
  index: 'src/index.ts',
  ...Object.fromEntries(FOLDERS.map((name) => [name, sourceOf(name)]))
}

/**
 * The source of `npx longhaul`, by its name in the build.
 * @type {Record<string, string>}
 */
export const PROGRAM = { longhaul: 'adapters/postgres/main.ts' }

function sourceOf(name) {
  return ['src', 'adapters', '.'].map((area) => posix.join(area, name, 'index.ts')).find((file) => existsSync(resolve(root, file)))
}
