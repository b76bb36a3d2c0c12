import { rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { build } from 'tsup'

const root = resolve(import.meta.dirname, '../..')

/**
 * Builds programs from the present sources in the same way as the package, so that the benchmark measures what
 * users get. Dependencies stay external. Returns a function from the name of a program to its path.
 */
export async function buildPrograms(name: string, entries: Readonly<Record<string, string>>): Promise<(program: string) => string> {
  // Below bench, so that the programs find the packages of bench/package.json, and those of the project above.
  const folder = resolve(root, 'bench/node_modules/.cache', name)
  await rm(folder, { recursive: true, force: true })
  const entry: Record<string, string> = { load: resolve(root, 'bench/frame/load.ts') }
  for (const [program, file] of Object.entries(entries)) entry[program] = resolve(root, file)
  await build({
    entry, outDir: folder, config: false, format: 'esm', target: 'node20', platform: 'node', splitting: true, treeshake: true,
    skipNodeModulesBundle: true, dts: false, silent: true, outExtension: () => ({ js: '.mjs' }),
    tsconfig: resolve(root, 'tsconfig.json'),
  })
  return (program) => resolve(folder, `${program}.mjs`)
}
