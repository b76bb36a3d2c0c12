import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

/** A server of this folder in a process with a small heap. It ends when the test does. */
export class SmallProcess {
  private constructor(private readonly child: ChildProcess, readonly port: number) {}

  static async start(file: string): Promise<SmallProcess> {
    const child = fork(join(import.meta.dirname, file), {
      execArgv: ['--max-old-space-size=64', '--max-semi-space-size=4', '--import', 'tsx'], stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    })
    const [{ port }] = await once(child, 'message') as [{ port: number }]
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

  async stop(): Promise<void> {
    if (!this.alive) return
    const gone = once(this.child, 'exit')
    this.child.disconnect()
    await gone
  }
}
