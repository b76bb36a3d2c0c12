import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { rollup } from 'rollup'
import { defineConfig, type Options } from 'tsup'
import { transform } from 'esbuild'
import { assetNames, readAsset } from './adapters/console/assets.js'
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
 * An adapter that imports `src/index.js` loads the built entry point `longhaul`. Otherwise its entry
 * would divide the code of `longhaul` into more files, each of which costs time at import.
 */
const ownEntry = (path: string): Plugin => ({
  name: 'own-entry',
  setup(build) {
    build.onResolve({ filter: /^\.\.\/\.\.\/src\/index\.js$/ }, () => ({ path, external: true }))
  },
})

/** Puts the files of the console into the build, minified, in place of the module that reads them from the sources. */
const consoleFiles: Plugin = {
  name: 'console-files',
  setup(build) {
    build.onLoad({ filter: /adapters\/console\/assets\.ts$/ }, async () => {
      const files = await Promise.all(assetNames.map(async (name) => [name, await minified(name)] as const))
      return { loader: 'js', contents: `const FILES = ${JSON.stringify(Object.fromEntries(files))}
        export const assetNames = Object.keys(FILES)
        export const readAsset = (name) => Promise.resolve(FILES[name])` }
    })
  },
}

async function minified(name: string): Promise<string> {
  const text = await readAsset(name)
  const loader = name.endsWith('.js') ? 'js' : name.endsWith('.css') ? 'css' : undefined
  return loader === undefined ? text : (await transform(text, { loader, minify: true, target: 'es2022' })).code
}

/** Writes `nodeRequire` as `require` in CommonJS, so that bundlers can follow it there. */
const plainRequire: NonNullable<Options['plugins']>[number] = {
  name: 'plain-require',
  renderChunk: (code) => ({ code: code.replaceAll('nodeRequire(', 'require(') }),
}

/** CommonJS packages that are loaded at import. Node reads the exports of one that is imported, but not of one that is required. */
const COMMON_JS = ['ipaddr.js', 'secure-json-parse']

/**
 * Puts the code that `longhaul` shares with other entry points into two files. esbuild makes a file for each set of
 * entry points that share something, so `longhaul` would be 50 files, and each one takes time at import
 * (`npm run bench:import`). What the handlers of HTTP need is a file of its own, so that they do not load the tasks.
 */
const fewFiles: NonNullable<Options['plugins']>[number] = {
  name: 'few-files',
  async buildEnd({ writtenFiles }) {
    const folder = resolve(this.options.outDir)
    const files = writtenFiles.map(({ name }) => resolve(name)).filter((name) => name.endsWith('.js'))
    const isChunk = (id: string): boolean => basename(id).startsWith('chunk-')
    const bundle = await rollup({
      input: Object.fromEntries(files.filter((file) => !isChunk(file)).map((file) => [basename(file, '.js'), file])),
      external: (id) => !/^[./\0]/.test(id) && !COMMON_JS.includes(id),
      treeshake: { moduleSideEffects: false },
      plugins: [{
        name: 'require-commonjs',
        resolveId: (id) => COMMON_JS.includes(id) ? `\0${id}` : null,
        load: (id) => id.startsWith('\0')
          ? `import { createRequire } from 'node:module'\nexport default createRequire(import.meta.url)('${id.slice(1)}')`
          : null,
      }],
    })
    await Promise.all(files.map((file) => rm(file)))
    await bundle.write({
      dir: folder, format: 'es', hoistTransitiveImports: false,
      chunkFileNames: ({ name }) => `${name.startsWith('chunk-') ? '' : 'chunk-'}${name}.js`,
      manualChunks(id, { getModuleInfo }) {
        const users = new Set([id])
        for (const user of users) for (const importer of getModuleInfo(user)?.importers ?? []) users.add(importer)
        const isUsedBy = (name: string): boolean => users.has(resolve(folder, `${name}.js`))
        if (!isUsedBy('index') || id === resolve(folder, 'index.js')) return undefined
        return ['http', 'policies', 'resources', 'content'].some(isUsedBy) ? 'http' : 'tasks'
      },
    })
    await bundle.close()
  },
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
    inject: ['scripts/node-require.mjs'], plugins: [fewFiles],
    esbuildPlugins: [nodeFiles, consoleFiles, ownEntry('./index.js')],
  },
  {
    ...forNode, format: 'cjs', outDir: 'dist/cjs', plugins: [plainRequire],
    esbuildPlugins: [nodeFiles, consoleFiles, ownEntry('./index.cjs')],
  },
]

export default defineConfig([
  // For application bundlers, a file for each module: they leave out what nobody imports, our
  // dependencies included (docs/adr/0018).
  {
    ...common,
    entry: ['src/**/*.ts', 'adapters/**/*.ts', 'conformance/**/*.ts', '!**/*.node.ts'],
    format: 'esm',
    outDir: 'dist/esm',
    bundle: false,
    esbuildPlugins: [consoleFiles],
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
