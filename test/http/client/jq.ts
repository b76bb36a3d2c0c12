// jq, compiled to WebAssembly, in a process of its own: it would hold up the server that it is fed from.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { root } from '../kit/process.js'

const SCRIPT = `
import { readFileSync } from 'node:fs'
import { raw } from 'jq-wasm'
const [filter, ...flags] = process.argv.slice(1)
process.stdout.write(await raw(readFileSync(0, 'utf8'), filter, flags))
`

/** What `jq <flags> <filter>` makes of `text`. */
export async function jq(text: string, filter: string, ...flags: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', SCRIPT, '--', filter, '-c', ...flags], {
    cwd: root,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let out = ''
  let err = ''
  child.stdout.on('data', (chunk) => { out += String(chunk) })
  child.stderr.on('data', (chunk) => { err += String(chunk) })
  child.stdin.on('error', () => undefined)
  child.stdin.end(text)
  const [code] = await once(child, 'close') as [number | null]
  assert.equal(code, 0, err)
  return out.trimEnd()
}
