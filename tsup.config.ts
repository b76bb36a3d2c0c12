import { defineConfig, type Options } from 'tsup'

const entry = {
  index: 'src/index.ts',
  memory: 'adapters/memory/index.ts',
  node: 'adapters/node/index.ts',
  fetch: 'adapters/fetch/index.ts',
  fastify: 'adapters/fastify/index.ts',
  koa: 'adapters/koa/index.ts',
  files: 'adapters/files/index.ts',
  conformance: 'adapters/conformance/index.ts',
  redis: 'adapters/redis/index.ts',
  bullmq: 'adapters/bullmq/index.ts',
  callbacks: 'adapters/callbacks/index.ts',
  client: 'adapters/client/index.ts'
}
const common: Options = { target: 'node20', platform: 'node', clean: true, sourcemap: false, removeNodeProtocol: false }

export default defineConfig([
  // A file for each module: what an application doesn't import, its bundler leaves out, our dependencies included (docs/adr/0018).
  { ...common, entry: ['src/**/*.ts', 'adapters/**/*.ts'], format: 'esm', outDir: 'dist/esm', bundle: false },
  // One copy of what two entries share; without treeshake, splitting turns ?. and ?? in CJS into slow helpers.
  { ...common, entry, format: 'cjs', outDir: 'dist/cjs', splitting: true, treeshake: true },
  { ...common, entry, format: ['esm', 'cjs'], outDir: 'dist/types', dts: { only: true, compilerOptions: { ignoreDeprecations: '6.0' } } }
])
