// Checks what TypeScript users see: every entry point and a program, on three compilers and three ways to resolve.
import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { consumer, entries, manifest, root, run } from './run.mjs'

/** Tested beside the one that the package is built with. */
export const OLDER_TYPESCRIPT = ['5.4.5', '5.9.3']

const BASE = {
  strict: true, exactOptionalPropertyTypes: true, esModuleInterop: true,
  target: 'es2022', lib: ['es2023'], types: ['node']
}
/** The type tests of test/types that need no framework. */
const TYPE_TESTS = ['tasks', 'bulk', 'policies', 'context', 'partial']
const RESOLUTIONS = {
  node10: [{ module: 'commonjs', moduleResolution: 'node10' }, ['all.ts', 'use.ts']],
  bundler: [{ module: 'preserve', moduleResolution: 'bundler' }, ['all.mts', 'use.mts']],
  // The libraries of the type tests are not checked.
  tests: [{ module: 'preserve', moduleResolution: 'bundler', skipLibCheck: true }, TYPE_TESTS.map((name) => `${name}-tests.ts`)],
  // As `nest new` sets it. Functions are then compared in both directions, which changes what is inferred.
  lax: [{ module: 'preserve', moduleResolution: 'bundler', strictFunctionTypes: false, skipLibCheck: true }, ['partial-tests.ts']],
  // What functions return can be named in the declarations of a user's module.
  declarations: [{ module: 'preserve', moduleResolution: 'bundler', declaration: true, skipLibCheck: true }, ['declarations.ts']],
  node16: [{ module: 'node16' }, ['all.mts', 'use.mts', 'all.cts', 'use.cts']]
}

export async function checkTypes() {
  for (const kind of ['mts', 'cts', 'ts']) {
    // NestJS 12 consists of ES modules only, which node16 does not let CommonJS require.
    const named = kind === 'cts' ? entries.filter((entry) => entry !== 'longhaul/nestjs') : entries
    writeFileSync(join(consumer, `all.${kind}`), named.map((entry, at) => importLine(kind, entry, at)).join(''))
    cpSync(join(root, 'test/package/consumer/consumer.ts'), join(consumer, `use.${kind}`))
  }
  cpSync(join(root, 'test/package/consumer/declarations.ts'), join(consumer, 'declarations.ts'))
  for (const name of TYPE_TESTS) cpSync(join(root, `test/types/${name}.test-d.ts`), join(consumer, `${name}-tests.ts`))
  await Promise.all([
    ...OLDER_TYPESCRIPT.map((version) => checkCompiler(version, `typescript-${version}`)),
    checkCompiler(manifest.devDependencies.typescript, join(root, 'node_modules/typescript')).then(runConsumer)
  ])
}

function importLine(kind, entry, at) {
  const head = kind === 'cts' ? `import e${at} = require('${entry}')` : `import * as e${at} from '${entry}'`
  return `${head}\nconsole.log(e${at})\n`
}

/** Compiles in every way to resolve, in one process for each compiler. */
async function checkCompiler(version, path) {
  const isPresent = path.startsWith(root)
  const programs = Object.entries(RESOLUTIONS).map(([name, [options, files]]) => ({
    name,
    files,
    least: ['tests', 'lax', 'declarations'].includes(name) ? 1 : entries.length,
    options: {
      ...BASE,
      ...options,
      ...isPresent && name === 'node10' && { ignoreDeprecations: '6.0' },
      // The consumer's program runs from what this one emits.
      noEmit: !(isPresent && name === 'node16')
    }
  }))
  const title = `types (TypeScript ${version}: ${Object.keys(RESOLUTIONS).join(', ')})`
  const script = join(root, 'scripts/check-package/compile.cjs')
  await run(title, process.execPath, [script], { cwd: consumer, input: JSON.stringify({ path, programs }) })
}

/** Runs the program that the newest compiler has emitted. */
async function runConsumer() {
  await Promise.all(['use.mjs', 'use.cjs'].map((script) => {
    return run(`the consumer runs (${script})`, process.execPath, [script], { cwd: consumer })
  }))
}
