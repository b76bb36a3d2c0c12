import { spawn, type ChildProcess } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createConnection, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { releaseLast } from '../../scripts/test-releases.mjs'
import { redisBinary, redisEnvironment } from './redis-binary.js'
import { TIED } from './tied.js'

const running = new Set<RedisServer>()
process.once('exit', () => { for (const server of running) void server.kill() })

/** One real server of a test's own, in a folder of its own. */
export class RedisServer {
  readonly dir = mkdtempSync(join(tmpdir(), 'longhaul-redis-'))
  private child: ChildProcess | undefined

  private constructor(readonly port: number, private readonly args: readonly string[]) {
    running.add(this)
  }

  /**
   * Starts a server on a free port, without persistence unless `args` say otherwise.
   *
   * @param config - text of a file of settings, which a sentinel needs
   */
  static async start(args: readonly string[] = [], config?: string): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), args)
    if (config !== undefined) writeFileSync(server.config, config)
    await server.run()
    return server
  }

  get url(): string {
    return `redis://127.0.0.1:${String(this.port)}`
  }

  private get config(): string {
    return join(this.dir, 'server.conf')
  }

  /** Starts it (again), on the same port and folder. Resolves when it answers. */
  async run(): Promise<void> {
    const binary = redisBinary()
    // The same program is a server, a sentinel or a checker, by its name.
    const file = join(this.dir, 'redis-server')
    if (!existsSync(file)) symlinkSync(binary.file, file)
    const [command = file, ...rest] = [...TIED, file]
    const child = spawn(
      command,
      [
        ...rest,
        ...(existsSync(this.config) ? [this.config] : []),
        '--port',
        String(this.port),
        '--bind',
        '127.0.0.1',
        '--dir',
        this.dir,
        '--save',
        '',
        '--daemonize',
        'no',
        ...this.args,
      ],
      { env: redisEnvironment(binary), stdio: ['ignore', 'pipe', 'inherit'] },
    )
    let log = ''
    child.stdout.on('data', (text) => { log = `${log}${String(text)}`.slice(-4000) })
    this.child = child
    child.unref()
    while (!await answers(this.port)) {
      if (child.exitCode !== null || child.signalCode !== null) throw new Error(`Redis has ended: ${log}`)
      await new Promise((resolve) => { setTimeout(resolve, 10) })
    }
  }

  /** Stops answering, without closing a connection: what a stuck machine looks like. */
  freeze(): void {
    this.child?.kill('SIGSTOP')
  }

  thaw(): void {
    this.child?.kill('SIGCONT')
  }

  /** Gone without a word. `run` brings it back. */
  async kill(): Promise<void> {
    const { child } = this
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    child.ref()
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  async stop(): Promise<void> {
    running.delete(this)
    await this.kill()
    rmSync(this.dir, { recursive: true, force: true })
  }
}

/** A server for all tests of a file. */
export async function redisForFile(args: readonly string[] = []): Promise<RedisServer> {
  const server = await RedisServer.start(args)
  releaseLast(() => server.stop())
  return server
}

/**
 * The address of a server that tests only use, and don't harm: that of `REDIS_URL`, that of this
 * run, or one for this file.
 */
export async function redisUrl(): Promise<string> {
  return process.env['REDIS_URL'] ?? process.env['LONGHAUL_TEST_REDIS_URL'] ?? (await redisForFile()).url
}

/**
 * A port that is free, and whose port for a cluster's bus is too. Both are below the ports that systems
 * give to outgoing connections: one of those could take the port before its server starts, or while it is down.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_240, 22_000)
    if (await isFree(port) && await isFree(port + 10_000)) return port
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.on('error', () => { resolve(false) })
    server.listen(port, '127.0.0.1', () => server.close(() => { resolve(true) }))
  })
}

/** Sends one command line; what comes back as text. `undefined` when nobody is there. */
export function say(port: number, line: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = createConnection({ port, host: '127.0.0.1' })
    socket.setTimeout(1000, () => socket.destroy())
    socket.on('error', () => { resolve(undefined) })
    socket.on('close', () => { resolve(undefined) })
    socket.on('data', (data) => {
      resolve(data.toString())
      socket.destroy()
    })
    socket.write(`${line}\r\n`)
  })
}

async function answers(port: number): Promise<boolean> {
  return await say(port, 'PING').then((answer) => answer?.startsWith('+PONG') ?? false)
}
