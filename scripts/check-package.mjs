// Checks the package as its users get it: node scripts/check-package.mjs [Node major …]
// Builds, packs and installs the tarball in an empty folder. Then imports, requires, bundles and compiles every
// entry point there. Independent checks run side by side, two at a time.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkBundles } from './check-package/bundles.mjs'
import { checkModules } from './check-package/modules.mjs'
import { checkPacked } from './check-package/packed.mjs'
import { checkOldPeers } from './check-package/old-peers.mjs'
import { bin, check, consumer, manifest, output, peers, root, run, tool } from './check-package/run.mjs'
import { checkTypes, OLDER_TYPESCRIPT } from './check-package/types.mjs'
import { measure } from './sizes.mjs'

const majors = process.argv.slice(2)

await run('build', bin('tsup'), [])
await run('tools', 'npm', ['run', 'checks:install'])
check('sideEffects', manifest.sideEffects === false, 'package.json must say sideEffects: false')

const [pack] = JSON.parse(await run('pack', 'npm', [
  'pack', '--json', '--silent', '--ignore-scripts', '--pack-destination', consumer
]))
const tarball = join(consumer, pack.filename)
const packed = pack.files.map((file) => file.path)
checkPacked(packed)

await Promise.all([
  run('publint', tool('publint'), ['run', '--strict']),
  checkPublish(),
  run('types resolve (attw)', tool('attw'), [tarball, '--profile', 'strict', '--no-emoji']),
  checkSizes(),
  checkOldPeers(tarball),
  install().then(() => Promise.all([checkModules(majors), checkTypes(), checkBundles(), checkRunners()]))
])
console.log(`The package is sound: ${packed.length} files, ${Math.round(pack.size / 1024)} KiB packed.`)

/**
 * Checks that `npm publish` corrects nothing: it would publish a package without the part that it cannot read. Asks
 * no registry, which would reject a version that is there already, and does not build again.
 */
async function checkPublish() {
  const { stderr } = await output('publish', 'npm', [
    'publish', '--dry-run', '--ignore-scripts', '--registry', 'http://127.0.0.1:9', '--fetch-retries', '0'
  ])
  const warnings = stderr.split('\n').filter((line) => /^npm (warn|error)/i.test(line) && !line.includes('logged in'))
  check('npm publish --dry-run has no warning', warnings.length === 0, warnings.join('\n'))
}

/** Checks that a bundle is small, and has only dependencies that it uses. */
async function checkSizes() {
  for (const { title, kib, faults } of await measure()) {
    check(`size: ${title}, ${kib.toFixed(1)} KiB`, faults.length === 0, faults.join('; '))
  }
}

async function install() {
  const npm = ['install', '--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts']
  writeFileSync(join(consumer, 'package.json'), JSON.stringify({ name: 'consumer', private: true }))
  await run('install', 'npm', [...npm, tarball], { cwd: consumer })
  const unasked = peers.filter((name) => existsSync(join(consumer, 'node_modules', name)))
  check('installed: no optional peer', unasked.length === 0, unasked.join(', '))
  const test = readFileSync(join(root, 'test/package/consumer/no-peers.mjs'))
  writeFileSync(join(consumer, 'no-peers.mjs'), test)
  await run('a missing peer is named', process.execPath, ['no-peers.mjs'], { cwd: consumer })
  const wanted = [...peers, '@types/node', '@types/koa', 'expect-type', 'zod'].map((name) => `${name}@${manifest.devDependencies[name]}`)
  const compilers = OLDER_TYPESCRIPT.map((version) => `typescript-${version}@npm:typescript@${version}`)
  await run('install peers', 'npm', [...npm, ...wanted, ...compilers], { cwd: consumer })
}

/** Checks that test runners load every entry point. Jest without options loads CommonJS only. */
async function checkRunners() {
  const test = readFileSync(join(root, 'test/package/consumer/runner.test.cjs'))
  writeFileSync(join(consumer, 'runner.test.cjs'), test)
  await Promise.all([
    run('Jest loads every entry', tool('jest'), ['--ci', '--testMatch', '**/runner.test.cjs'], { cwd: consumer }),
    run('node:test loads every entry', process.execPath, ['--test', 'runner.test.cjs'], { cwd: consumer })
  ])
}
