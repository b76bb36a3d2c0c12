import { defineConfig, type Options } from 'tsup'
import { ENTRY_POINTS as entry } from './scripts/entry-points.mjs'

const common: Options = { target: 'node20', platform: 'node', clean: true, sourcemap: false, removeNodeProtocol: false }

export default defineConfig([
  // A file for each module: what an application doesn't import, its bundler leaves out, our dependencies included (docs/adr/0018).
  { ...common, entry: ['src/**/*.ts', 'adapters/**/*.ts'], format: 'esm', outDir: 'dist/esm', bundle: false },
  // One copy of what two entries share; without treeshake, splitting turns ?. and ?? in CJS into slow helpers.
  { ...common, entry, format: 'cjs', outDir: 'dist/cjs', splitting: true, treeshake: true },
  { ...common, entry, format: ['esm', 'cjs'], outDir: 'dist/types', dts: { only: true, compilerOptions: { ignoreDeprecations: '6.0' } } }
])
