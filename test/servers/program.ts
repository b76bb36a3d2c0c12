// Starts the program of a source file: the one that scripts/test.mjs has built, or the source itself by tsx.
import { join, relative, resolve } from 'node:path'

const root = join(import.meta.dirname, '..', '..')
const built = process.env['LONGHAUL_TEST_PROGRAMS']

/** The options of Node that such a program needs. */
export const PROGRAM_OPTIONS: readonly string[] = built === undefined ? ['--import', 'tsx'] : ['--enable-source-maps']

/** The file to run, of a source such as `examples/worker/main.ts`. */
export function programFile(source: string): string {
  const path = resolve(root, source)
  return built === undefined ? path : join(built, relative(root, path).replace(/\.ts$/, '.js'))
}

/** The arguments of Node for the program of a source. */
export function program(source: string): readonly string[] {
  return [...PROGRAM_OPTIONS, programFile(source)]
}
