import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ServerProcess } from '../http/kit/process.js'
import type { WorkerControl } from './chaos.js'
import type { Vitals } from './terms.js'

/** Two web processes and a worker, in a folder where runs are written down. */
export class Site implements WorkerControl {
  readonly folder = mkdtempSync(join(tmpdir(), 'longhaul-soak-'))
  readonly exits: string[] = []
  private worker!: ServerProcess
  private ending = false

  private constructor(private readonly redisUrl: string, readonly webs: { readonly process: ServerProcess, url: string }[]) {}

  static async start(redisUrl: string): Promise<Site> {
    const site = new Site(redisUrl, [])
    const [one, other, worker] = [site.spawn('web'), site.spawn('web'), site.spawn('worker')]
    for (const web of [one, other]) site.webs.push({ process: web, url: await web.url() })
    site.worker = worker
    await worker.url()
    for (const web of [one, other]) {
      // Nothing that happens to Redis ends a web process.
      void web.exited.then(({ code, signal }) => { if (!site.ending) site.exits.push(`a web process ended: ${String(code)} ${String(signal)} ${web.err.slice(-2000)}`) })
    }
    return site
  }

  get urls(): string[] {
    return this.webs.map(({ url }) => url)
  }

  async kill(): Promise<void> {
    this.worker.child.kill('SIGKILL')
    await this.worker.exited
    await this.renew()
  }

  async replace(): Promise<void> {
    await this.end(this.worker, 'the worker')
    await this.renew()
  }

  signal(signal: 'SIGSTOP' | 'SIGCONT'): void {
    this.worker.child.kill(signal)
  }

  /** How each process is. */
  async vitals(): Promise<{ readonly webs: readonly Vitals[], readonly worker: Vitals }> {
    const ask = async (url: string): Promise<Vitals> => (await fetch(`${url}/vitals`, { headers: { connection: 'close' } })).json() as Promise<Vitals>
    return { webs: await Promise.all(this.urls.map(ask)), worker: await ask(await this.worker.url()) }
  }

  /** How often each task was begun, by all processes that there were; and how often each submission. */
  runs(): { readonly byTask: Map<string, number>, readonly bySubmission: Map<number, number> } {
    const byTask = new Map<string, number>()
    const bySubmission = new Map<number, number>()
    for (const name of readdirSync(this.folder)) {
      for (const line of readFileSync(join(this.folder, name), 'utf8').split('\n')) {
        const [id = '', n] = line.split(' ')
        if (n === undefined) continue
        byTask.set(id, (byTask.get(id) ?? 0) + 1)
        bySubmission.set(Number(n), (bySubmission.get(Number(n)) ?? 0) + 1)
      }
    }
    return { byTask, bySubmission }
  }

  /** SIGTERM to all. */
  async stop(): Promise<void> {
    this.ending = true
    await Promise.all([...this.webs.map((web) => this.end(web.process, 'a web process')), this.end(this.worker, 'the worker')])
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Ends whatever is left, when the test itself has failed. */
  abandon(): void {
    this.ending = true
    for (const each of [...this.webs.map((web) => web.process), this.worker]) each.child.kill('SIGKILL')
    rmSync(this.folder, { recursive: true, force: true })
  }

  private async renew(): Promise<void> {
    this.worker = this.spawn('worker')
    await this.worker.url()
  }

  private async end(each: ServerProcess, name: string): Promise<void> {
    const began = performance.now()
    each.child.kill('SIGTERM')
    const { code, signal } = await each.exited
    const ms = performance.now() - began
    if (code !== 0) this.exits.push(`${name} on SIGTERM ended with ${String(code ?? signal)}: ${each.err.slice(-2000)}`)
    // A second to drain, two until runs have heard, the deadlines of three closes; the rest is for a busy machine.
    if (ms > 20_000) this.exits.push(`${name} took ${String(Math.round(ms / 1000))} s to end`)
  }

  private spawn(role: 'web' | 'worker'): ServerProcess {
    return new ServerProcess(process.execPath, ['--expose-gc', '--import', 'tsx', join(import.meta.dirname, 'process.ts'), this.redisUrl, role, this.folder], {})
  }
}
