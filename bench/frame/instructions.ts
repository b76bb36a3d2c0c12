import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Load } from './program.js'
import type { LoadOrder } from './load.js'
import { valgrindEnvironment } from './valgrind.js'

/** Requests until V8 compiles hardly any function again. An accept in Express on Node 24 needs some 20,000. */
const WARM_UP = 24_000
const WINDOWS = 6
const WINDOW = 600
/** Some tasks of the default limit of one owner. */
const CONNECTIONS = 8

/**
 * The clock and the timers of the program are slow, because valgrind and other load make its process slow.
 * Otherwise turns of a few milliseconds end too soon, and periodic work is divided among few requests.
 */
const SLOW_CLOCK_SOURCE = `
  import timers from 'node:timers'
  import { syncBuiltinESMExports } from 'node:module'
  const { performance } = globalThis
  const now = performance.now.bind(performance)
  performance.now = () => now() / 1000
  for (const name of ['setTimeout', 'setInterval']) {
    const set = timers[name]
    timers[name] = (run, ms, ...args) => set(run, Math.min(2 ** 31 - 1, ms * 1000), ...args)
    globalThis[name] = timers[name]
  }
  syncBuiltinESMExports()
`

/** Option of Node for a slow clock. */
export const SLOW_CLOCK = `--import=data:text/javascript,${encodeURIComponent(SLOW_CLOCK_SOURCE)}`

/**
 * One thread does all work, so that compilation and garbage collection count. The memory reducer of V8 takes a process
 * that valgrind and other load slow down for an idle one. It would collect all garbage in each window, and drop code
 * that V8 then compiles again.
 */
const NODE = [
  '--single-threaded', '--hash-seed=1', '--random-seed=1', '--stack-size=4000', '--no-memory-reducer',
  SLOW_CLOCK,
]

export type Requests = Pick<LoadOrder, 'requests' | 'expectStatus'>

/** A program that listens, and the requests that it gets. */
export interface CountedServer {
  /** Path of the binary of Node. Default: the one of this process. */
  readonly node?: string
  readonly file: string
  readonly load: string
  /** Returns the requests that count. `run` sends requests that do not count and returns bodies of the responses. */
  readonly prepare: (run: (order: Requests & Pick<LoadOrder, 'count' | 'keepBodies'>) => Promise<readonly string[]>) => Promise<Requests> | Requests
  /** Requests before the first one that counts. Default: 24,000. */
  readonly warmUp?: number
}

/**
 * Counts the instructions in user mode of one request of a warm server, its socket included.
 * Returns the least of several windows, because collections of all garbage and late compilations make others dearer.
 *
 * @throws {Error} there is no valgrind, and it cannot be fetched
 */
export async function instructionsFor(server: CountedServer): Promise<number> {
  return Math.min(...await instructionsOfWindows(server, { windows: WINDOWS, size: WINDOW }))
}

/** Counts the same for several windows of requests that follow each other. Returns the means of the windows. */
export async function instructionsOfWindows(
  { node = process.execPath, file, load: loadFile, prepare, warmUp = WARM_UP }: CountedServer,
  { windows, size }: { readonly windows: number, readonly size: number },
): Promise<number[]> {
  const env = valgrindEnvironment()
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-gate-'))
  const load = await Load.start(loadFile, 'any')
  const child = spawn('valgrind', [
    '--tool=callgrind', `--callgrind-out-file=${folder}/counts`, '--smc-check=all-non-file', '--instr-atstart=no', node, ...NODE, file,
  ], { stdio: ['ignore', 'inherit', 'ignore', 'ipc'], env: { ...env, NODE_ENV: 'production' } })
  const control = (...args: readonly string[]): void => { execFileSync('callgrind_control', [...args, String(child.pid)], { env, stdio: 'ignore' }) }
  try {
    const [{ port }] = await once(child, 'message') as [{ port: number }]
    const run = async (order: Requests & Pick<LoadOrder, 'count' | 'keepBodies'>) => (await load.run({ ...order, port, connections: CONNECTIONS })).bodies
    const requests = await prepare(run)
    if (warmUp > 0) await run({ ...requests, count: warmUp })
    control('-i', 'on')
    const counts: number[] = []
    for (let window = 1; window <= windows; window++) {
      await run({ ...requests, count: size })
      control('-d')
      counts.push(await totalOf(`${folder}/counts.${window}`) / size)
    }
    return counts
  } finally {
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
    await load.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

/** Returns the sum of a file of callgrind. */
export async function totalOf(file: string): Promise<number> {
  const total = /^totals: (\d+)/m.exec(await readFile(file, 'utf8'))?.[1]
  if (total === undefined) throw new Error(`valgrind wrote no total into ${file}`)
  return Number(total)
}
