// The reference server as a process of its own.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after } from 'node:test'
import { program } from '../../servers/program.js'

export const root = join(import.meta.dirname, '..', '..', '..')

const started = new Set<ChildProcess>()

/** Call once in a file: no process outlives it. */
export function stopAfterwards(): void {
  after(() => {
    for (const child of started) if (child.exitCode === null && child.signalCode === null) kill(child, 'SIGKILL')
  })
}

export class ServerProcess {
  out = ''
  err = ''
  readonly child: ChildProcess
  readonly exited: Promise<{ code: number | null, signal: NodeJS.Signals | null }>

  constructor(command: string, args: readonly string[], env: Readonly<Record<string, string | undefined>>) {
    // A group of its own, so that what `npm` starts goes with it.
    this.child = spawn(command, args, { cwd: root, env: environment(env), stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    started.add(this.child)
    this.child.stdout?.on('data', (text) => { this.out += String(text) })
    this.child.stderr?.on('data', (text) => { this.err += String(text) })
    this.exited = once(this.child, 'close').then(([code, signal]) => ({ code, signal }))
  }

  /** Its address, once it is ready. */
  async url(): Promise<string> {
    for (;;) {
      const url = /ready at (http:\/\/\S+)\n/i.exec(this.out)?.[1]
      if (url !== undefined) return url
      if (this.child.exitCode !== null || this.child.signalCode !== null) throw new Error(`The server has ended: ${this.out}${this.err}`)
      await Promise.race([once(this.child.stdout ?? this.child, 'data'), this.exited])
    }
  }
}

/** Starts the server without npm, so that signals reach it alone. */
export function startProcess(env: Readonly<Record<string, string | undefined>> = {}): ServerProcess {
  return new ServerProcess(process.execPath, program('examples/reference-server/main.ts'), { PORT: '0', ...env })
}

function environment(env: Readonly<Record<string, string | undefined>>): NodeJS.ProcessEnv {
  const { NODE_TEST_CONTEXT: _, AUTH_TOKENS: _tokens, NODE_ENV: _mode, HOST: _host, ...rest } = process.env
  return { ...rest, ...env }
}

function kill({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal)
  } catch {
    // It has gone in the meantime.
  }
}
