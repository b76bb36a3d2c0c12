// Checks which build each tool selects: Node its own, application bundlers and Workers the build with a file for each module.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { build } from 'esbuild'
import { LAZY } from './modules.mjs'
import { check, consumer, entries, peers, run } from './run.mjs'

/** Ways to bundle an application. A tool with conditions of its own turns `module` off in esbuild. */
const TOOLS = {
  'a server': { platform: 'node' },
  'a Worker': { platform: 'neutral', mainFields: ['module', 'main'], conditions: ['workerd', 'worker', 'browser'] }
}

export async function checkBundles() {
  const program = "console.log(import.meta.resolve('longhaul'), import.meta.resolve('longhaul/bulk'))"
  const resolved = await run('Node resolves', process.execPath, ['--input-type=module', '--eval', program], { cwd: consumer })
  check('Node imports the build for Node', /\/dist\/node\/index\.js \S+\/dist\/node\/bulk\.js\n$/.test(resolved), resolved)
  const required = createRequire(join(consumer, 'x.js')).resolve('longhaul/bulk')
  check('Node requires CommonJS', required.endsWith('/dist/cjs/bulk.cjs'), required)

  const importAll = entries.map((entry, at) => `import * as e${at} from '${entry}'; console.log(e${at})`).join('\n')
  for (const [title, options] of Object.entries(TOOLS)) await checkTool(`${title} imports`, importAll, 'esm', options)
  const requireAll = entries.map((entry) => `console.log(require('${entry}'))`).join('\n')
  await checkTool('a server requires', requireAll, 'cjs', TOOLS['a server'])
}

/** Bundles everything. All files of the package must belong to one build, and the tool must find the heavy dependencies. */
async function checkTool(title, contents, folder, options) {
  const { metafile } = await build({
    stdin: { contents, resolveDir: consumer },
    ...options,
    bundle: true, write: false, metafile: true, format: 'esm', logLevel: 'silent', external: ['node:*', ...peers]
  })
  const inputs = Object.keys(metafile.inputs)
  const own = inputs.filter((path) => path.includes('node_modules/longhaul/'))
  const strays = own.filter((path) => !path.includes(`node_modules/longhaul/dist/${folder}/`))
  check(`bundle, ${title}: dist/${folder}`, own.length > 0 && strays.length === 0, strays.join(', '))
  const missing = LAZY.filter((name) => !inputs.some((path) => path.includes(`node_modules/${name}/`)))
  check(`bundle, ${title}: with its dependencies`, missing.length === 0, missing.join(', '))
}
