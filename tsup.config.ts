import { defineConfig } from 'tsup'

export default defineConfig({
  entry: {
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
  },
  format: ['esm', 'cjs'],
  target: 'node20',
  platform: 'node',
  clean: true,
  // One copy of what two entries share; without treeshake, splitting turns ?. and ?? in CJS into slow helpers.
  splitting: true,
  treeshake: true,
  sourcemap: false,
  dts: { compilerOptions: { ignoreDeprecations: '6.0' } }
})
