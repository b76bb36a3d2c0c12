// Checks which of the builds a tool takes: Node its own, application bundlers and Workers a file for each module.
import { createRequire } from 'node:module'
import { relative } from 'node:path'
import { join } from 'node:path'
import { build } from 'esbuild'
import { check, consumer, entries, peers, run } from './run.mjs'

/** How tools bundle an application. A Worker's tool sets its own conditions, which turns `module` off in esbuild. */
const TOOLS = {
  'a server': { platform: 'node' },
  'a browser': { platform: 'browser' },
  'a Worker': { platform: 'neutral', mainFields: ['module', 'main'], conditions: ['workerd', 'worker', 'browser'] }
}

export async function checkBundles() {
  const program = "console.log(import.meta.resolve('longhaul'), import.meta.resolve('longhaul/bulk'))"
  const resolved = await run('Node resolves', process.execPath, ['--input-type=module', '--eval', program], { cwd: consumer })
  const required = createRequire(join(consumer, 'x.js')).resolve('longhaul/bulk')
  check('Node imports the build for Node', /\/dist\/node\/index\.js \S+\/dist\/node\/bulk\.js\n$/.test(resolved), resolved)
  check('Node requires CommonJS', required.endsWith('/dist/cjs/bulk.cjs'), required)
  for (const [title, options] of Object.entries(TOOLS)) {
    await checkTool(`${title} that imports`, (entry, at) => `import * as e${at} from '${entry}'; console.log(e${at})`, options)
    // A Worker's tool bundles ES modules only.
    if (title === 'a Worker') continue
    await checkTool(`${title} that requires`, (entry) => `console.log(require('${entry}'))`, options)
  }
}

async function checkTool(title, line, options) {
  const { metafile, outputFiles } = await build({
    stdin: { contents: entries.map(line).join('\n'), resolveDir: consumer },
    ...options,
    bundle: true, write: false, metafile: true, format: 'esm', logLevel: 'silent', external: ['node:*', ...peers]
  })
  const own = Object.keys(metafile.inputs).map((path) => relative(process.cwd(), path)).filter((path) => path.includes('node_modules/longhaul/'))
  const strays = own.filter((path) => !path.includes('node_modules/longhaul/dist/esm/'))
  check(`bundle: ${title} gets a file for each module`, own.length > 0 && strays.length === 0, strays.join(', '))
  const [{ text }] = outputFiles
  check(`bundle: ${title} needs no require of ours`, !text.includes('nodeRequire'), 'it has a file for Node')
}
