import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { existsSync } from 'node:fs'
import type { LoadOrder, LoadReport } from './load.js'

const TASKSET = ['/usr/bin/taskset', '/bin/taskset'].find((path) => existsSync(path))
/** True if the system can pin the server to one core, and the load and the rest to another. */
export const PINNED = TASKSET !== undefined && availableParallelism() > 1
export const SERVER_CORE = availableParallelism() - 1
export const LOAD_CORE = 0

/** A child process that answers messages, one at a time. */
export class Program {
  private constructor(private readonly child: ChildProcess) {}

  /** Starts a built program on one core, or on any; resolves with its first message. */
  static async start<First>(file: string, core: number | 'any', how: { node?: readonly string[], args?: readonly string[] } = {}): Promise<[Program, First]> {
    const command = PINNED && core !== 'any'
      ? [TASKSET as string, '-c', String(core), process.execPath]
      : [process.execPath]
    const [name, ...args] = [...command, ...how.node ?? [], file, ...how.args ?? []] as [string, ...string[]]
    const child = spawn(name, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'], env: { ...process.env, NODE_ENV: 'production' } })
    const program = new Program(child)
    return [program, await program.next<First>()]
  }

  async ask<Answer>(question: object | string): Promise<Answer> {
    const answer = this.next<Answer>()
    this.child.send(question)
    return answer
  }

  /** The program ends when its channel does. */
  async stop(): Promise<void> {
    if (this.child.exitCode !== null) return
    const gone = once(this.child, 'exit')
    if (this.child.connected) this.child.disconnect()
    await gone
  }

  /** Resolves with the next message of the process. */
  next<Answer>(): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const heard = (message: unknown): void => {
        this.child.off('exit', left)
        resolve(message as Answer)
      }
      const left = (code: number | null): void => {
        this.child.off('message', heard)
        reject(new Error(`${this.child.spawnargs.at(-1) ?? 'a program'} ended with ${String(code)}`))
      }
      this.child.once('message', heard)
      this.child.once('exit', left)
    })
  }
}

/** The load generator. */
export class Load {
  private constructor(private readonly program: Program) {}

  static async start(file: string, core: number | 'any' = LOAD_CORE): Promise<Load> {
    const [program] = await Program.start(file, core)
    return new Load(program)
  }

  async run(order: LoadOrder): Promise<LoadReport> {
    const answer = await this.program.ask<{ report: LoadReport } | { error: string }>(order)
    if ('error' in answer) throw new Error(answer.error)
    return answer.report
  }

  stop(): Promise<void> {
    return this.program.stop()
  }
}

/** CPU time of a process so far, in microseconds: all of it, and that outside of the kernel. */
export interface CpuTime {
  readonly cpu: number
  readonly user: number
}

/** A server under measurement. */
export class ServerProgram {
  private constructor(readonly port: number, private readonly program: Program) {}

  static async start(file: string, core: number | 'any' = SERVER_CORE): Promise<ServerProgram> {
    const [program, { port }] = await Program.start<{ port: number }>(file, core)
    return new ServerProgram(port, program)
  }

  /** CPU time of the whole process so far, in microseconds: garbage collection and compilation too. */
  async cpu(): Promise<CpuTime> {
    return this.program.ask<CpuTime>('cpu')
  }

  stop(): Promise<void> {
    return this.program.stop()
  }
}
