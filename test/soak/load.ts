import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Ledger, Promised } from './ledger.js'
import type { Random } from './random.js'
import { ownerOf, type Mode } from './terms.js'

interface Answer {
  readonly status: number
  readonly location: string | undefined
  readonly text: string
}

interface Face {
  readonly taskId?: string
  readonly status?: string
  /** Those of a job. */
  readonly jobId?: string
  readonly state?: string
  readonly result?: unknown
}

/** Every request is answered in five seconds whatever the server does; the rest is for a machine that has much else to do. */
const CEILING_MS = 15_000
const WAIT_S = 5
/** Default of `syncTimeoutMs`: a synchronous request may wait so long for its task. */
const SYNC_MS = 30_000

/** Clients of all kinds, at all web processes. */
export class Load {
  private readonly agent = new Agent({ keepAlive: true, maxSockets: 64 })
  private readonly under = new Set<Promise<void>>()

  constructor(
    private readonly webs: readonly string[], private readonly receiver: string, private readonly random: Random, private readonly ledger: Ledger,
  ) {}

  /** Begins something new, `perSecond` times a second, until `signal` aborts; resolves when all of it has come to its end. */
  async run(perSecond: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // More than that at once is no load but a pile.
      if (this.under.size < 150) this.begin()
      await sleep(1000 / perSecond)
    }
    await Promise.all(this.under)
    this.agent.destroy()
  }

  private begin(): void {
    const one = this.one().catch((error: unknown) => { this.ledger.fault(`the load failed: ${String(error)}`) }).finally(() => this.under.delete(one))
    this.under.add(one)
  }

  private async one(): Promise<void> {
    const kind = this.random.pick({ task: 40, job: 15, keyed: 15, waiting: 8, direct: 8, upload: 7, bulk: 7 })
    const n = ++this.ledger.submissions
    if (kind === 'upload' || kind === 'bulk') return this.records(kind, n)
    const mode: Mode = this.random.pick({ ok: 8, fails: 1, flaky: 1 })
    const hook = kind !== 'direct' && this.random.chance(0.3) ? `/hook/${String(n)}` : undefined
    const ms = Math.round(this.random.chance(0.1) ? this.random.between(1000, 4000) : this.random.between(0, 200))
    const body = JSON.stringify({ n, ms: kind === 'direct' ? ms / 10 : ms, mode, ...hook !== undefined && { callbackUrl: this.receiver + hook } })
    const path = kind === 'job' ? '/jobs' : '/tasks'
    const headers = {
      'content-type': 'application/json', ...ownerOf(n),
      ...kind !== 'direct' && { prefer: kind === 'waiting' ? 'respond-async, wait=2' : 'respond-async' },
      ...kind === 'keyed' && { 'idempotency-key': `key-${String(n)}` },
    }
    // A client with a key asks again until it knows, here and there.
    for (let tried = 0; tried < (kind === 'keyed' ? 6 : 1); tried++) {
      const answer = await this.ask(kind, 'POST', this.web() + path, headers, body, ceilingOf(kind))
      if (answer?.status !== 202 || answer.location === undefined) {
        // A direct answer and one that came in time are all there is to them.
        if (kind !== 'direct' && (answer === undefined || answer.status === 503 || kind === 'waiting')) this.ledger.unsure++
        if (kind !== 'keyed') return
        await sleep(this.random.between(50, 1500))
        continue
      }
      const id = answer.location.slice(answer.location.lastIndexOf('/') + 1)
      const task = this.ledger.promise({ id, n, mode, path: answer.location, hook, cancelAsked: false })
      if (kind === 'keyed') this.ledger.key(`key-${String(n)}`, id)
      if (kind !== 'keyed' || this.random.chance(0.6)) return this.follow(task)
    }
  }

  private async follow(task: Promised): Promise<void> {
    const how = this.random.pick({ poll: 4, longPoll: 4, events: 3, cancel: 1, leave: 2 })
    if (how === 'leave') return
    if (how === 'cancel') {
      await sleep(this.random.between(0, 500))
      task.cancelAsked = true
      await this.ask('cancel', 'DELETE', this.web() + task.path, ownerOf(task.n))
    }
    for (let tried = 0; tried < 20 && task.final === undefined; tried++) {
      const headers = how === 'events' ? { accept: 'text/event-stream' } : how === 'longPoll' ? { prefer: `wait=${String(WAIT_S)}` } : {}
      const answer = await this.ask(how, 'GET', this.web() + task.path, { ...ownerOf(task.n), ...headers }, undefined, CEILING_MS + (how === 'poll' ? 0 : 60_000))
      if (answer?.status === 200) {
        const text = how === 'events' ? /.*\ndata: (.*)\n\n/s.exec(answer.text)?.[1] : answer.text
        // A stream that was cut ends anywhere.
        if (text !== undefined) this.see(task, text)
      }
      if (how === 'poll') await sleep(this.random.between(20, 400))
    }
  }

  private see(task: Promised, text: string): void {
    const face = JSON.parse(text) as Face
    if ((face.taskId ?? face.jobId) !== task.id) this.ledger.fault('an answer for another task')
    this.ledger.see(task, face.status ?? face.state ?? '', face.result)
  }

  private async records(kind: 'upload' | 'bulk', n: number): Promise<void> {
    const ids = Array.from({ length: Math.round(this.random.between(1, 200)) }, (_, at) => n * 200 + at)
    const body = kind === 'bulk' ? JSON.stringify(ids.map((id) => ({ id }))) : ids.map((id) => `{"id":${String(id)}}\n`).join('')
    const type = kind === 'bulk' ? 'application/json' : 'application/x-ndjson'
    const answer = await this.ask(kind, 'POST', `${this.web()}/${kind}`, { 'content-type': type }, body)
    if (answer?.status !== 200 && answer?.status !== 201) return
    const { summary } = JSON.parse(answer.text) as { summary?: { succeeded?: number } }
    if (summary?.succeeded !== ids.length) this.ledger.fault(`${kind} told of ${String(summary?.succeeded)} records of ${String(ids.length)}`)
    for (const id of ids) this.ledger.records.add(id)
  }

  private web(): string {
    return this.random.one(this.webs)
  }

  /** `undefined`: there was no answer, or none that is whole. */
  private ask(kind: string, method: string, url: string, headers: Record<string, string> = {}, body?: string, ceilingMs = CEILING_MS): Promise<Answer | undefined> {
    const began = performance.now()
    return new Promise((resolve) => {
      const end = (answer: Answer | undefined, how: number | string): void => {
        this.ledger.answered(kind, how, performance.now() - began, ceilingMs)
        resolve(answer)
      }
      const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
      let begun = false
      const outgoing = request(url, { method, agent: this.agent, headers: { ...headers, ...length } }, (answer) => {
        begun = true
        let text = ''
        answer.setEncoding('utf8').on('data', (part: string) => { text += part })
        answer.on('close', () => {
          const { statusCode: status = 0, headers: { location } } = answer
          if (answer.complete) end({ status, location, text }, status)
          else end(undefined, 'cut')
        })
        answer.on('error', () => undefined)
      })
      outgoing.on('error', () => { if (!begun) end(undefined, 'none') })
      outgoing.setTimeout(ceilingMs + 30_000, () => outgoing.destroy())
      outgoing.end(body)
    })
  }
}

function ceilingOf(kind: string): number {
  if (kind === 'direct') return CEILING_MS + SYNC_MS
  return kind === 'waiting' ? CEILING_MS + 2000 : CEILING_MS
}
