// The reference server as a process of its own.
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after } from 'node:test'
import { program } from '../../servers/program.js'
import { within } from '../../kit/wait.js'

export const root = join(import.meta.dirname, '..', '..', '..')

/**
 * Maximum time of a process to print a text, in milliseconds. A file has four minutes, so several
 * failures have room.
 */
const SAID_MS = 60_000

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
  private hasEnded = false

  constructor(command: string, args: readonly string[], env: Readonly<Record<string, string | undefined>>) {
    // A group of its own, so that what `npm` starts goes with it.
    this.child = spawn(command, args, {
      cwd: root,
      env: environment(env),
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    started.add(this.child)
    this.child.stdout?.on('data', (text) => { this.out += String(text) })
    this.child.stderr?.on('data', (text) => { this.err += String(text) })
    this.exited = once(this.child, 'close').then(([code, signal]) => {
      this.hasEnded = true
      return { code, signal }
    })
  }

  /** Its address, once it is ready. */
  async url(): Promise<string> {
    const [, url = ''] = await this.said(/ready at (http:\/\/\S+)\n/i)
    return url
  }

  /**
   * Returns the match once the process has printed the text. Rejects if the process ends before, or after a minute: a
   * test that waited without a limit would wait until the file is killed.
   */
  async said(text: RegExp): Promise<RegExpExecArray> {
    try {
      return await within(this.match(text), SAID_MS, 'Not printed')
    } catch (error) {
      throw new Error(`${String(text)}: ${(error as Error).message}. The output is: ${this.out}${this.err}`)
    }
  }

  private async match(text: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = text.exec(this.out)
      if (match) return match
      if (this.hasEnded) throw new Error('The process has ended')
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
