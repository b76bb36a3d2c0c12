import { join } from 'node:path'
import { build } from 'esbuild'

const root = join(import.meta.dirname, '..', '..', '..')

/** A program that uses `longhaul/client`, as one minified script. Fails on anything that a browser has not. */
export async function bundled(program: string, format: 'esm' | 'iife' = 'esm'): Promise<string> {
  const { outputFiles: [file] } = await build({
    stdin: { contents: program, resolveDir: root, loader: 'ts' }, bundle: true, minify: true, write: false,
    format, platform: 'browser', target: 'es2022', logLevel: 'silent',
    // Found by the same map as everywhere else, without a build.
    tsconfig: join(root, 'tsconfig.json'),
    // As package.json says of the whole package.
    plugins: [{
      name: 'no-side-effects',
      setup: (plugin) => {
        plugin.onResolve({ filter: /^longhaul\/client$/ }, () => ({
          path: join(root, 'src/client/index.ts'),
          sideEffects: false,
        }))
      },
    }],
  })
  if (!file) throw new Error('esbuild made nothing')
  return file.text
}
