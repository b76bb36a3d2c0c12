import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SLOW_CLOCK, totalOf } from '../frame/instructions.js'
import { valgrindEnvironment } from '../frame/valgrind.js'

/**
 * The same seeds and one thread: garbage collection counts, and all happens in the same order each time. The memory reducer
 * of V8 collects all garbage at times that depend on other load, and drops code that V8 then compiles again.
 */
const NODE = ['--single-threaded', '--expose-gc', '--hash-seed=1', '--random-seed=1', '--stack-size=4000', '--no-memory-reducer']
/**
 * The optimising compiler does not count. It has its own thread in production, and how often it runs again
 * depends on chance, so that it would hide a change of some per cent.
 */
const CALLGRIND = [
  '--tool=callgrind', '--smc-check=all-non-file',
  '--toggle-collect=v8::internal::compiler::PipelineCompilationJob::*JobImpl*', '--collect-atstart=yes',
]

/** Counts the instructions in user mode of one unit of a warm job. Those of the kernel do not count. */
export async function countJob(program: string, job: string, { warmUp, counted }: { warmUp: number, counted: number }): Promise<number> {
  const env = valgrindEnvironment()
  const { child, told, message, gone } = startCounted(['--instr-atstart=no'], [program, job, String(warmUp), String(counted)])
  const counting = (state: 'on' | 'off') => execFileSync('callgrind_control', ['-i', state, String(child.pid)], { env, stdio: 'ignore' })
  await message()
  counting('on')
  child.send('go')
  await message()
  counting('off')
  child.send('end')
  await gone
  return collected(told()) / counted
}

/**
 * Counts a job that allocates much in several windows, and returns the least one: a collection of all garbage makes
 * the others dearer. The clock is slow, so that no count depends on the other load of the machine.
 */
export async function leastOfWindows(
  program: string, job: string, { warmUp, counted, windows }: { warmUp: number, counted: number, windows: number },
): Promise<number> {
  const env = valgrindEnvironment()
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-count-'))
  const file = join(folder, 'counts')
  const { child, message, gone } = startCounted(['--instr-atstart=no'], [SLOW_CLOCK, program, job, String(warmUp), String(counted)], file)
  const control = (...args: readonly string[]) => execFileSync('callgrind_control', [...args, String(child.pid)], { env, stdio: 'ignore' })
  try {
    await message()
    control('-i', 'on')
    const counts: number[] = []
    for (let window = 1; window <= windows; window++) {
      child.send('go')
      await message()
      control('-d')
      counts.push(await totalOf(`${file}.${window}`) / counted)
    }
    child.send('end')
    await gone
    return Math.min(...counts)
  } finally {
    child.kill('SIGKILL')
    await rm(folder, { recursive: true, force: true })
  }
}

/** Counts the instructions in user mode of a whole process that runs a module. */
export async function countProcess(file: string): Promise<number> {
  const { told, gone } = startCounted([], [file])
  await gone
  return collected(told())
}

function startCounted(options: readonly string[], args: readonly string[], file = '/dev/null') {
  const child: ChildProcess = spawn('valgrind', [...CALLGRIND, `--callgrind-out-file=${file}`, ...options, process.execPath, ...NODE, ...args], {
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'], env: { ...valgrindEnvironment(), NODE_ENV: 'production' },
  })
  let text = ''
  child.stderr?.setEncoding('utf8').on('data', (more: string) => { text += more })
  const gone = once(child, 'close')
  const ended = gone.then(() => { throw new Error(`${args.join(' ')} ended too early: ${text.slice(-2000)}`) })
  ended.catch(() => undefined)
  return { child, gone, told: () => text, message: () => Promise.race([once(child, 'message'), ended]) }
}

function collected(told: string): number {
  const count = /Collected : (\d+)/.exec(told)?.[1]
  if (count === undefined) throw new Error(`valgrind printed no count: ${told.slice(-2000)}`)
  return Number(count)
}
