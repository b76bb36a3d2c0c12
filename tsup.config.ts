import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { defineConfig, type Options } from 'tsup'
import { ENTRY_POINTS as entry, PROGRAM } from './scripts/entry-points.mjs'

type Plugin = NonNullable<Options['esbuildPlugins']>[number]

/**
 * Replaces x.ts with x.node.ts where both exist. The second one loads a heavy dependency at first
 * use by `require`, which application bundlers and Workers could not follow.
 */
const nodeFiles: Plugin = {
  name: 'node-files',
  setup(build) {
    build.onResolve({ filter: /^\.\.?\/.*\.js$/ }, ({ path, resolveDir }) => {
      const file = resolve(resolveDir, path.replace(/\.js$/, '.node.ts'))
      return existsSync(file) ? { path: file } : undefined
    })
  },
}

/**
 * An adapter that imports `src/index.js` loads the built entry point `longhaul`, and so does
 * `longhaul/operators` for `taskEndpoints`. Otherwise its entry would divide the code of `longhaul`
 * into more files, each of which costs time at import.
 */
const ownEntry = (path: string): Plugin => ({
  name: 'own-entry',
  setup(build) {
    build.onResolve({ filter: /^\.\.\/(\.\.\/src\/index|tasks\/http\/endpoints)\.js$/ }, () => ({ path, external: true }))
  },
})

/** Writes `nodeRequire` as `require` in CommonJS, so that bundlers can follow it there. */
const plainRequire: NonNullable<Options['plugins']>[number] = {
  name: 'plain-require',
  renderChunk: (code) => ({ code: code.replaceAll('nodeRequire(', 'require(') }),
}

const common: Options = {
  target: 'node20', platform: 'node', clean: true, sourcemap: false, removeNodeProtocol: false,
}

// One copy of what two entries share. Without treeshake, splitting turns ?. and ?? in CommonJS into
// slow helpers.
const forNode: Options = {
  ...common,
  entry,
  splitting: true,
  treeshake: true,
}

/** Builds that Node loads: ES modules and CommonJS. It opens one file for each module. */
export const nodeBuilds: Options[] = [
  {
    ...forNode, entry: { ...entry, ...PROGRAM }, format: 'esm', outDir: 'dist/node',
    inject: ['scripts/node-require.mjs'],
    esbuildPlugins: [nodeFiles, ownEntry('./index.js')],
  },
  {
    ...forNode, format: 'cjs', outDir: 'dist/cjs', plugins: [plainRequire],
    esbuildPlugins: [nodeFiles, ownEntry('./index.cjs')],
  },
]

export default defineConfig([
  // For application bundlers, a file for each module: they leave out what nobody imports, our
  // dependencies included (docs/adr/0018).
  {
    ...common,
    entry: ['src/**/*.ts', 'adapters/**/*.ts', '!**/*.node.ts'],
    format: 'esm',
    outDir: 'dist/esm',
    bundle: false,
  },
  ...nodeBuilds,
  {
    ...common,
    entry,
    format: ['esm', 'cjs'],
    outDir: 'dist/types',
    dts: { only: true, compilerOptions: { ignoreDeprecations: '6.0' } },
  },
])
