// Checks what TypeScript users see: every entry point and a program, on three compilers and three ways to resolve.
import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { bin, consumer, entries, manifest, root, run } from './run.mjs'

/** Tested beside the one that the package is built with. */
export const OLDER_TYPESCRIPT = ['5.4.5', '5.9.3']

// The library's own types are checked too: no skipLibCheck. Those of the compiler are not ours.
const BASE = {
  strict: true, exactOptionalPropertyTypes: true, esModuleInterop: true, skipDefaultLibCheck: true,
  target: 'es2022', lib: ['es2023'], types: ['node'], noEmit: true
}
const RESOLUTIONS = {
  node10: [{ module: 'commonjs', moduleResolution: 'node10' }, ['all.ts', 'use.ts']],
  bundler: [{ module: 'preserve', moduleResolution: 'bundler' }, ['all.mts', 'use.mts']],
  node16: [{ module: 'node16' }, ['all.mts', 'use.mts', 'all.cts', 'use.cts']]
}

export async function checkTypes() {
  for (const kind of ['mts', 'cts', 'ts']) {
    writeFileSync(join(consumer, `all.${kind}`), entries.map((entry, at) => importLine(kind, entry, at)).join(''))
    cpSync(join(root, 'test/package/consumer/consumer.ts'), join(consumer, `use.${kind}`))
  }
  const present = manifest.devDependencies.typescript
  const compilers = [
    [present, bin('tsc')],
    ...OLDER_TYPESCRIPT.map((version) => [version, join(consumer, 'node_modules', `typescript-${version}`, 'bin', 'tsc')])
  ]
  await Promise.all(compilers.flatMap(([version, tsc]) => Object.keys(RESOLUTIONS).map(async (resolution) => {
    const isPresent = version === present
    await compile(version, tsc, resolution, isPresent)
    if (isPresent && resolution === 'node16') await runConsumer()
  })))
}

function importLine(kind, entry, at) {
  const head = kind === 'cts' ? `import e${at} = require('${entry}')` : `import * as e${at} from '${entry}'`
  return `${head}\nconsole.log(e${at})\n`
}

async function compile(version, tsc, resolution, isPresent) {
  const [options, include] = RESOLUTIONS[resolution]
  const compilerOptions = { ...BASE, ...options }
  if (isPresent && resolution === 'node10') compilerOptions.ignoreDeprecations = '6.0'
  if (isPresent && resolution === 'node16') compilerOptions.noEmit = false
  const file = `tsconfig.${version.replace(/[^\d.]/g, '')}.${resolution}.json`
  writeFileSync(join(consumer, file), JSON.stringify({ compilerOptions, include }))
  await run(`types (TypeScript ${version}, ${resolution})`, process.execPath, [tsc, '-p', file], { cwd: consumer })
}

/** Runs the program that the newest compiler has emitted. */
async function runConsumer() {
  await Promise.all(['use.mjs', 'use.cjs'].map((script) => {
    return run(`the consumer runs (${script})`, process.execPath, [script], { cwd: consumer })
  }))
}
