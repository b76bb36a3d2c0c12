import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { Load } from './program.js'
import type { LoadOrder } from './load.js'

const WARM_UP = 20_000
const COUNTED = 6000

/**
 * Counts the instructions in user mode of one request of a warm server, without those of the kernel. One thread does
 * all work, so that compilation and garbage collection count, in the same order each time. Needs valgrind, and a minute or two.
 */
export async function instructionsFor(file: string, loadFile: string, order: Omit<LoadOrder, 'port' | 'connections' | 'count'>): Promise<number> {
  const load = await Load.start(loadFile)
  const child = spawn('valgrind', [
    '--tool=callgrind', '--callgrind-out-file=/dev/null', '--smc-check=all-non-file', '--instr-atstart=no', process.execPath, '--single-threaded', '--stack-size=4000', file,
  ], { stdio: ['ignore', 'inherit', 'pipe', 'ipc'], env: { ...process.env, NODE_ENV: 'production' } })
  let told = ''
  const counting = (state: 'on' | 'off'): void => { execFileSync('callgrind_control', ['-i', state, String(child.pid)], { stdio: 'ignore' }) }
  child.stderr?.setEncoding('utf8').on('data', (text: string) => { told += text })
  try {
    const [{ port }] = await once(child, 'message') as [{ port: number }]
    const run = (count: number) => load.run({ ...order, port, connections: 8, count })
    await run(WARM_UP)
    counting('on')
    await run(COUNTED)
    counting('off')
  } finally {
    const gone = once(child, 'exit')
    child.disconnect()
    await gone
    await load.stop()
  }
  const counted = /Collected : (\d+)/.exec(told)?.[1]
  if (counted === undefined) throw new Error(`valgrind told no count: ${told.slice(-500)}`)
  return Number(counted) / COUNTED
}
