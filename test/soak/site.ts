import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ServerProcess } from '../http/kit/process.js'
import { skewedBy } from '../servers/faketime.js'
import { freePort } from '../servers/redis-server.js'
import { TcpProxy } from '../servers/tcp-proxy.js'
import type { Recorded } from './history.js'
import type { Random } from './random.js'
import type { SoakServer } from './server.js'
import { WORKERS, type Vitals } from './terms.js'

/** Errors of the wall clocks, in seconds. The processes that share a file have the clock of their machine. */
const SKEWS = [-86_400, -3600, -10, 0, 10, 3600, 86_400]

/**
 * A process of the site, on a port of its own, behind a proxy of its own. Each time it starts, its
 * wall clock is wrong in another way.
 */
export class Member {
  process!: ServerProcess
  /** Ends it was told to come to. Any other is a fault. */
  private isEnding = false

  constructor(
    private readonly role: 'web' | 'worker' | 'both',
    private readonly port: number,
    private readonly databaseUrl: string,
    readonly proxy: TcpProxy,
    private readonly folder: string,
    private readonly random: Random,
    private readonly exits: string[],
  ) {}

  get pid(): number | undefined {
    return this.process.child.pid
  }

  get url(): string {
    return `http://127.0.0.1:${String(this.port)}`
  }

  async start(): Promise<void> {
    const seconds = this.databaseUrl.startsWith('sqlite') ? 0 : this.random.one(SKEWS)
    const args = [
      this.databaseUrl,
      this.role,
      this.folder,
      String(this.port),
      String(Math.round(this.random.between(0, 1_000_000))),
    ]
    this.isEnding = false
    const started = new ServerProcess(
      process.execPath,
      ['--expose-gc', '--import', 'tsx', join(import.meta.dirname, 'process.ts'), ...args],
      seconds === 0 ? {} : skewedBy(seconds),
    )
    this.process = started
    void started.exited.then(({ code, signal }) => {
      if (!this.isEnding)
        this.exits.push(`a process (${this.role}) ended: ${String(code)} ${String(signal)} ${started.err.slice(-2000)}`)
    })
    await started.url()
  }

  /** SIGKILL, and another one in its place. */
  async kill(): Promise<void> {
    this.isEnding = true
    this.process.child.kill('SIGKILL')
    await this.process.exited
    await this.start()
  }

  /** SIGTERM, and another one in its place. */
  async replace(): Promise<void> {
    await this.end()
    await this.start()
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.process.child.kill(signal)
  }

  async end(): Promise<void> {
    const began = performance.now()
    this.isEnding = true
    this.process.child.kill('SIGTERM')
    const timer = setTimeout(() => {
      this.process.child.kill('SIGKILL')
    }, 60_000)
    const { code, signal } = await this.process.exited
    clearTimeout(timer)
    const ms = performance.now() - began
    if (code !== 0)
      this.exits.push(
        `a process (${this.role}) on SIGTERM ended with ${String(code ?? signal)}: ${this.process.err.slice(-2000)}`,
      )
    // A second to drain, two until runs have heard, the deadlines of three closes; the rest is for a busy machine.
    if (ms > 20_000) this.exits.push(`a process (${this.role}) took ${String(Math.round(ms / 1000))} s to end`)
  }

  /** Ends it, when the test itself has failed. */
  abandon(): void {
    this.isEnding = true
    this.process.child.kill('SIGKILL')
  }
}

/**
 * Two web processes and two workers on one server or file, in a folder where they write down what
 * happens; or one process with all in its memory.
 */
export class Site {
  readonly exits: string[] = []
  readonly members: Member[] = []

  private constructor(private readonly folder: string) {}

  static async start(server: SoakServer | undefined, folder: string, random: Random): Promise<Site> {
    const site = new Site(folder)
    const workers = Array<'worker'>(WORKERS).fill('worker')
    for (const role of server ? ['web', 'web', ...workers] as const : ['both'] as const) {
      // Nothing goes through that of a process without a server.
      const proxy = await TcpProxy.to(server?.port ?? 1)
      const member = new Member(
        role,
        await freePort(),
        server?.url(proxy.port) ?? 'memory:',
        proxy,
        site.folder,
        random,
        site.exits,
      )
      site.members.push(member)
      await member.start()
    }
    return site
  }

  get webs(): readonly Member[] {
    return this.members.slice(0, 2)
  }

  get workers(): readonly Member[] {
    return this.members.slice(-WORKERS)
  }

  /** How each web process is. */
  async vitals(): Promise<readonly Vitals[]> {
    return Promise.all(
      this.webs.map(
        async ({ url }) =>
          (await fetch(`${url}/vitals`, { headers: { connection: 'close' } })).json() as Promise<Vitals>,
      ),
    )
  }

  /** What the engines of all processes that there were have done so far, by time. */
  history(): Recorded[] {
    const events = this.lines('history-').map((line) => JSON.parse(line) as Recorded)
    return events.sort((one, other) => one.at - other.at)
  }

  /** Ids of the records that were written. */
  records(): ReadonlySet<number> {
    return new Set(this.lines('records-').map(Number))
  }

  /** SIGTERM to all. */
  async stop(): Promise<void> {
    await Promise.all(this.members.map((member) => member.end()))
  }

  /** Ends whatever is left. */
  remove(): void {
    for (const member of this.members) {
      member.abandon()
      member.proxy.close()
    }
  }

  private lines(prefix: string): string[] {
    const files = readdirSync(this.folder).filter((name) => name.startsWith(prefix))
    return files.flatMap((name) => readFileSync(join(this.folder, name), 'utf8').split('\n').slice(0, -1))
  }
}
