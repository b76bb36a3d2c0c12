import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { PROGRAM_OPTIONS, programFile } from '../../servers/program.js'

/** How a `SmallProcess` is started. */
export interface SmallProcessOptions {
  /** `--max-old-space-size`, in MiB. Default 64. */
  readonly heapMiB?: number
  /** Added to the environment of the process. */
  readonly env?: Record<string, string>
}

/** A server of this folder in a process with a small heap. It ends when the test does. */
export class SmallProcess {
  private constructor(private readonly child: ChildProcess, readonly port: number) {}

  static async start(file: string, { heapMiB = 64, env = {} }: SmallProcessOptions = {}): Promise<SmallProcess> {
    const child = fork(programFile(join(import.meta.dirname, '..', 'small-heap', file)), {
      env: { ...process.env, ...env },
      execArgv: [`--max-old-space-size=${String(heapMiB)}`, '--max-semi-space-size=4', ...PROGRAM_OPTIONS],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    const { port } = await messageOf<{ port: number }>(child)
    return new SmallProcess(child, port)
  }

  get alive(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null
  }

  /** What it uses now and has used at most, in bytes. */
  async memory(): Promise<{ readonly rss: number, readonly maxRss: number, readonly written?: number }> {
    this.child.send('memory')
    const [memory] = await once(this.child, 'message') as [{ rss: number, maxRss: number, written?: number }]
    return memory
  }

  /** Sends a message and resolves to the answer. Rejects when the process ends before it. */
  tell<T>(message: string): Promise<T> {
    this.child.send(message)
    return messageOf(this.child)
  }

  async stop(): Promise<void> {
    if (!this.alive) return
    const gone = once(this.child, 'exit')
    this.child.disconnect()
    await gone
  }
}

/** The next message of a process. Rejects when it ends before that. */
function messageOf<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    const message = (value: unknown): void => {
      child.off('exit', exit)
      resolve(value as T)
    }
    const exit = (code: number | null, signal: string | null): void => {
      child.off('message', message)
      reject(new Error(`The process has ended: ${String(code ?? signal)}`))
    }
    child.once('message', message)
    child.once('exit', exit)
  })
}
