import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after } from 'node:test'
import { ServerProcess, stopAfterwards } from '../../http/kit/process.js'
import { Client, type Answer } from '../../http/kit/reference.js'
import type { PostgresServer } from '../../servers/postgres-server.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { program } from '../../servers/program.js'
import { eventually, within, pause } from '../../kit/wait.js'

/** Maximum time until a request is answered, whatever the database does, in milliseconds. */
const ANSWER_MS = 30_000
const KIB = 1024

/**
 * A server of tasks and blobs, behind a proxy to its database. It accepts a task every 200 ms, and
 * keeps a list of those that were acknowledged.
 */
export class Site {
  readonly acknowledged: string[] = []
  slowest = 0
  private isOver = false
  private readonly load: Promise<void>

  private constructor(readonly proxy: TcpProxy, readonly process: ServerProcess, readonly client: Client) {
    this.load = this.submitAlways()
  }

  static async start(database: PostgresServer): Promise<Site> {
    stopAfterwards()
    const proxy = await TcpProxy.to(database.port)
    after(() => { proxy.close() })
    const file = join(import.meta.dirname, 'server.ts')
    const server = new ServerProcess(process.execPath, [...program(file), database.urlAt(proxy.port)], {})
    const site = new Site(proxy, server, new Client(await server.url()))
    after(() => site.stopLoad())
    return site
  }

  /** Every kind of request at once has its 503 in time. */
  async refused(code = /^(store_unavailable|service_unavailable)$/): Promise<void> {
    for (const answer of await this.everyRequest()) {
      assert.equal(answer.status, 503, answer.text)
      assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/)
      assert.match((JSON.parse(answer.text) as { code: string }).code, code)
      assert.doesNotMatch(answer.text, /postgres|127\.0|ECONN|bullmq|relation/i)
    }
  }

  /** Every kind of request at once is answered in time, whatever the answer is. */
  async everyRequest(): Promise<readonly Answer[]> {
    const key = { 'idempotency-key': `key-${String(performance.now())}` }
    return Promise.all([
      this.ask('POST', '/tasks', { body: { ms: 0 } }),
      this.ask('POST', '/tasks', { body: { ms: 0 }, headers: key }),
      this.ask('GET', '/tasks/unknown'),
      this.ask('GET', '/tasks/unknown', { headers: { prefer: 'wait=20' } }),
      this.ask('DELETE', '/tasks/unknown'),
      this.ask('PUT', '/blobs/refused', { body: 'x'.repeat(600 * KIB) }),
      this.ask('GET', '/blobs/unknown'),
    ])
  }

  /** Works again, without a restart: a task, and a blob of three chunks. */
  async works(): Promise<void> {
    await eventually(
      async () => (await this.client.ask('GET', '/tasks/unknown')).status === 404,
      20_000,
      'the server finds its database again',
    )
    const path = await this.begun(0)
    await this.survives(path)
    const text = `${String(performance.now())} ${'x'.repeat(600 * KIB)}`
    await eventually(
      async () => (await this.client.ask('PUT', '/blobs/key', { body: text })).status === 204,
      20_000,
      'a blob is written',
    )
    assert.equal((await this.client.ask('GET', '/blobs/key')).text, text)
  }

  /** Accepts a task, on the second try or later if need be. */
  async begun(ms: number): Promise<string> {
    for (let tried = 0; ; tried++) {
      const { status, headers, text } = await this.client.ask('POST', '/tasks', { body: { ms } })
      if (status === 202) return headers.get('location') ?? ''
      assert.ok(status === 503 && tried < 50, text)
      await pause(100)
    }
  }

  /** Resolves when a task has completed. */
  async survives(path: string): Promise<void> {
    let last = ''
    await eventually(async () => {
      const { status, text, json } = await this.client.ask('GET', path, { headers: { prefer: 'wait=2' } })
      last = text
      return status !== 503 && json?.status !== 'processing'
    }, 30_000, `${path} ends`)
    assert.equal((JSON.parse(last) as { status: unknown }).status, 'completed', last)
  }

  /** All that was acknowledged meanwhile is there, and completed. The process has no complaints. */
  async lostNothing(): Promise<void> {
    await this.stopLoad()
    assert.ok(this.acknowledged.length > 0)
    for (const path of this.acknowledged) await this.survives(path)
    assert.ok(this.slowest < ANSWER_MS, `answered after ${Math.round(this.slowest)} ms`)
    assert.equal(this.process.child.exitCode, null, this.process.err)
    assert.doesNotMatch(this.process.err, /unhandled/i)
  }

  private async ask(...request: Parameters<Client['ask']>): Promise<Answer> {
    return within(this.client.ask(...request), ANSWER_MS, `an answer to ${request[0]} ${request[1]}`)
  }

  private async submitAlways(): Promise<void> {
    while (!this.isOver) {
      const began = performance.now()
      const { status, headers, text } = await this.client.ask('POST', '/tasks', { body: { ms: 20 } })
      this.slowest = Math.max(this.slowest, performance.now() - began)
      if (status === 202) this.acknowledged.push(headers.get('location') ?? '')
      else assert.equal(status, 503, text)
      await pause(200)
    }
  }

  async stopLoad(): Promise<void> {
    this.isOver = true
    await this.load
  }
}
