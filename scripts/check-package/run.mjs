// Runs the steps of scripts/check-package.mjs: two programs at a time, and the first fault ends everything.
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const AT_ONCE = 2
const TIMEOUT_MS = 300_000

export const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..')
export const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
export const peers = Object.keys(manifest.peerDependencies ?? {})
/** The specifier of each entry point: `longhaul`, `longhaul/bulk`, … */
export const entries = Object.keys(manifest.exports)
  .filter((path) => path !== './package.json').map((path) => join(manifest.name, path))

/** A new folder outside the project, in which the package is installed. */
export const consumer = mkdtempSync(join(tmpdir(), 'longhaul-consumer-'))

const stop = new AbortController()
process.on('exit', () => {
  stop.abort()
  rmSync(consumer, { recursive: true, force: true })
})

/** Returns the path of a program in node_modules. */
export const bin = (name) => join(root, 'node_modules', '.bin', name)

/** Returns the path of a program of checks/package.json. */
export const tool = (name) => join(root, 'checks', 'node_modules', '.bin', name)

/** Prints the result of one check. Ends the process if it failed. */
export function check(title, ok, reason) {
  if (!ok) {
    console.error(`✖ ${title}: ${reason}`)
    process.exit(1)
  }
  console.log(`✔ ${title}`)
}

const waiting = []
let running = 0

/**
 * Runs a program to its end and returns its output. If it fails, prints the output and ends the process.
 * @param {{ cwd?: string, input?: string }} [options]
 */
export async function run(title, command, args, options) {
  return (await output(title, command, args, options)).stdout
}

/** Does the same, and returns what the program has written to both of its outputs. */
export async function output(title, command, args, { cwd = root, input } = {}) {
  if (running === AT_ONCE) await new Promise((start) => waiting.push(start))
  else running++
  const options = { cwd, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024, timeout: TIMEOUT_MS, signal: stop.signal }
  const { error, stdout, stderr } = await new Promise((done) => {
    const child = execFile(command, args, options, (error, stdout, stderr) => done({ error, stdout, stderr }))
    child.stdin.end(input)
  })
  const next = waiting.shift()
  if (next === undefined) running--
  else next()
  check(title, error === null, `${error?.message}\n${stdout}\n${stderr}`)
  return { stdout, stderr }
}
