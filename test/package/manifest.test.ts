import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import ts from 'typescript'
import { ENTRY_POINTS, PROGRAM } from '../../scripts/entry-points.mjs'
import tsup from '../../tsup.config.js'

const root = join(import.meta.dirname, '..', '..')
const text = (path: string) => readFileSync(join(root, path), 'utf8')
const manifest = JSON.parse(text('package.json'))
const subpaths = Object.keys(manifest.exports).filter((path) => path !== './package.json')

const output = (subpath: string) => subpath === '.' ? 'index' : subpath.slice(2)
/** The source of an entry point: `.` is src, `./node` is adapters/node, `./conformance` is conformance. */
const source = (subpath: string) => ENTRY_POINTS[output(subpath)] ?? ''

test('each entry point has a source, a build entry, ESM and CJS with types of their own, and a page', () => {
  assert.ok(Array.isArray(tsup))
  const [modules, ...bundles] = tsup
  assert.deepEqual(modules?.entry, ['src/**/*.ts', 'adapters/**/*.ts', 'conformance/**/*.ts', '!**/*.node.ts'])
  assert.deepEqual(bundles.map(({ outDir }) => outDir), ['dist/node', 'dist/cjs', 'dist/types'])
  const sources = Object.fromEntries(subpaths.map((subpath) => [output(subpath), source(subpath)]))
  for (const { entry, outDir } of bundles) {
    assert.deepEqual(entry, outDir === 'dist/node' ? { ...sources, ...PROGRAM } : sources)
  }
  assert.deepEqual(JSON.parse(text('typedoc.json')).entryPoints, subpaths.map(source))
  for (const subpath of subpaths) {
    assert.ok(existsSync(join(root, source(subpath))), source(subpath))
    const types = `./dist/types/${output(subpath)}`
    const modules = `./dist/esm/${source(subpath).replace(/ts$/, 'js')}`
    const node = `./dist/node/${output(subpath)}.js`
    assert.deepEqual(manifest.exports[subpath], {
      import: { types: `${types}.d.ts`, module: modules, node, default: modules },
      require: { types: `${types}.d.cts`, default: `./dist/cjs/${output(subpath)}.cjs` }
    })
  }
})

test('npx longhaul is built for Node', () => {
  assert.deepEqual(Object.keys(PROGRAM).map((name) => [name, `dist/node/${name}.js`]), Object.entries(manifest.bin))
  for (const path of Object.values(PROGRAM)) assert.ok(text(path).startsWith('#!/usr/bin/env node\n'), path)
})

test('the conditions of an entry point stand in the order in which a tool must read them', () => {
  for (const subpath of subpaths) {
    const { import: imported, require: required } = manifest.exports[subpath]
    assert.deepEqual(Object.keys(imported), ['types', 'module', 'node', 'default'])
    assert.deepEqual(Object.keys(required), ['types', 'default'])
  }
})

test('each file for Node replaces a file beside it and exports the same names', () => {
  const files = ['src', 'adapters'].flatMap((folder) => (
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((file) => join(folder, file))
  )).filter((file) => file.endsWith('.node.ts'))
  assert.ok(files.length > 0)
  const exported = (file: string) => [...text(file).matchAll(/^export function (\w+)/gm)].map(([, name]) => name)
  for (const file of files) assert.deepEqual(exported(file), exported(file.replace('.node.ts', '.ts')), file)
})

test('a TypeScript without support for exports finds the types of each entry point (15.23)', () => {
  const types = (subpath: string) => `./dist/types/${output(subpath)}.d.cts`
  assert.equal(manifest.types, types('.'))
  const below = subpaths.filter((subpath) => subpath !== '.')
  assert.deepEqual(manifest.typesVersions, {
    '*': Object.fromEntries(below.map((subpath) => [output(subpath), [types(subpath)]])),
  })
})

test('the public names resolve to the sources without a build', () => {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => readFileSync(path, 'utf8'))
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
  for (const subpath of subpaths) {
    const name = subpath.replace('.', 'longhaul')
    const found = ts.resolveModuleName(
      name,
      join(root, 'examples', 'x.ts'),
      options,
      ts.sys,
      undefined,
      undefined,
      ts.ModuleKind.ESNext,
    )
    assert.equal(found.resolvedModule?.resolvedFileName, join(root, source(subpath)))
  }
})

test('the consumer that is compiled and run against the package imports every entry point', () => {
  const consumer = text('test/package/consumer/consumer.ts')
  // It is compiled as CommonJS too. NestJS 12 consists of ES modules only, which node16 does not let CommonJS require.
  for (const subpath of subpaths.filter((each) => each !== './nestjs'))
    assert.ok(consumer.includes(` from '${subpath.replace('.', 'longhaul')}'`), subpath)
})

test('the package contains what is built and the docs for users, without side effects, for the tested versions of Node', () => {
  const pages = ['CHANGELOG.md', 'docs/README.md', 'docs/errors.md', 'docs/guarantees.md', 'docs/guide']
  const pictures = ['docs/flow.svg', 'docs/states.svg', 'docs/console*.png', 'docs/upload-*.png', 'docs/progress-*.png']
  assert.deepEqual(manifest.files, ['dist', ...pages, ...pictures])
  assert.equal(manifest.sideEffects, false)
  assert.equal(manifest.engines.node, '>=20.19')
})

for (const folder of ['', 'bench/', 'checks/']) {
  test(`${folder}package-lock.json contains no address of a registry, and has the dependencies of ${folder}package.json`, () => {
    const { dependencies, devDependencies } = JSON.parse(text(`${folder}package.json`))
    const { packages } = JSON.parse(text(`${folder}package-lock.json`))
    const addresses = Object.entries(packages).filter(([, entry]) => 'resolved' in (entry as object))
    assert.deepEqual(addresses, [])
    assert.deepEqual(packages[''].dependencies, dependencies)
    assert.deepEqual(packages[''].devDependencies, devDependencies)
  })
}

test('tsconfig.json excludes exactly the benchmarks that import a package of bench/package.json', () => {
  const { devDependencies } = JSON.parse(text('bench/package.json'))
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => readFileSync(path, 'utf8'))
  const files = readdirSync(join(root, 'bench'), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.startsWith('node_modules'))
    .map((file) => join('bench', file))
  const imports = new Map(
    files.map((file) => [file, ts.preProcessFile(text(file)).importedFiles.map(({ fileName }) => fileName)]),
  )
  const isLeftOut = (file: string): boolean => (imports.get(file) ?? []).some((name) => (
    name.startsWith('.')
      ? isLeftOut(join(file, '..', name.replace(/js$/, 'ts')))
      : Object.keys(devDependencies).some((dependency) => name === dependency || name.startsWith(`${dependency}/`))
  ))
  assert.deepEqual(config.exclude, files.filter(isLeftOut).sort())
})
