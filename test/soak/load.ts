import { setTimeout as sleep } from 'node:timers/promises'
import { CEILING_MS, SYNC_MS, type Client } from './client.js'
import type { Ledger, Promised } from './ledger.js'
import type { Random } from './random.js'
import { ownerOf, type Mode } from './terms.js'

interface Face {
  readonly taskId?: string
  readonly status?: string
  /** Those of a job. */
  readonly jobId?: string
  readonly state?: string
  readonly result?: unknown
}

const WAIT_S = 5

/** Clients of all kinds, at all web processes. */
export class Load {
  private readonly under = new Set<Promise<void>>()

  constructor(
    private readonly client: Client,
    private readonly receiver: string,
    private readonly random: Random,
    private readonly ledger: Ledger,
  ) {}

  /**
   * Begins something new, `perSecond` times a second, until `signal` aborts; resolves when all of
   * it has come to its end.
   */
  async run(perSecond: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      // More than that at once is no load but a pile.
      if (this.under.size < 150) this.begin()
      await sleep(1000 / perSecond)
    }
    await Promise.all(this.under)
  }

  private begin(): void {
    const one = this.one()
      .catch((error: unknown) => {
        this.ledger.fault(`the load failed: ${String(error)}`)
      })
      .finally(() => this.under.delete(one))
    this.under.add(one)
  }

  private async one(): Promise<void> {
    const kind = this.random.pick({ task: 40, job: 15, keyed: 15, waiting: 8, direct: 8, upload: 7, bulk: 7 })
    const n = ++this.ledger.submissions
    if (kind === 'upload' || kind === 'bulk') return this.records(kind, n)
    const mode: Mode = this.random.pick({ ok: 8, fails: 1, flaky: 1 })
    const hook = kind !== 'direct' && this.random.chance(0.3) ? `/hook/${String(n)}` : undefined
    const ms = Math.round(this.random.chance(0.1) ? this.random.between(1000, 4000) : this.random.between(0, 200))
    const body = JSON.stringify({
      n,
      ms: kind === 'direct' ? ms / 10 : ms,
      mode,
      ...(hook !== undefined && { callbackUrl: this.receiver + hook }),
    })
    const path = kind === 'job' ? '/jobs' : '/tasks'
    const headers = {
      'content-type': 'application/json',
      'x-owner': ownerOf(n),
      ...(kind !== 'direct' && { prefer: kind === 'waiting' ? 'respond-async, wait=2' : 'respond-async' }),
      ...(kind === 'keyed' && { 'idempotency-key': `key-${String(n)}` }),
    }
    // A client with a key asks again until it knows, here and there.
    for (let tried = 0; tried < (kind === 'keyed' ? 6 : 1); tried++) {
      const answer = await this.client.ask(kind, 'POST', path, { headers, body, ceilingMs: ceilingOf(kind) })
      if (answer?.status !== 202 || answer.location === undefined) {
        // A direct answer and one that came in time are all there is to them.
        if (kind !== 'direct' && (answer === undefined || answer.status === 503 || kind === 'waiting'))
          this.ledger.unsure++
        if (kind !== 'keyed') return
        await sleep(this.random.between(50, 1500))
        continue
      }
      const id = answer.location.slice(answer.location.lastIndexOf('/') + 1)
      const task = this.ledger.promise({ id, owner: ownerOf(n), mode, path: answer.location, hook, cancelAsked: false })
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
      await this.client.ask('cancel', 'DELETE', task.path, { headers: { 'x-owner': task.owner } })
    }
    for (let tried = 0; tried < 20 && task.final === undefined; tried++) {
      const headers =
        how === 'events'
          ? { accept: 'text/event-stream' }
          : how === 'longPoll'
            ? { prefer: `wait=${String(WAIT_S)}` }
            : {}
      const answer = await this.client.ask(how, 'GET', task.path, {
        headers: { 'x-owner': task.owner, ...headers },
        ceilingMs: CEILING_MS + (how === 'poll' ? 0 : 60_000),
      })
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
    const body =
      kind === 'bulk' ? JSON.stringify(ids.map((id) => ({ id }))) : ids.map((id) => `{"id":${String(id)}}\n`).join('')
    const type = kind === 'bulk' ? 'application/json' : 'application/x-ndjson'
    const answer = await this.client.ask(kind, 'POST', `/${kind}`, { headers: { 'content-type': type }, body })
    if (answer?.status !== 200 && answer?.status !== 201) return
    const { summary } = JSON.parse(answer.text) as { summary?: { succeeded?: number } }
    if (summary?.succeeded !== ids.length)
      this.ledger.fault(`${kind} told of ${String(summary?.succeeded)} records of ${String(ids.length)}`)
    for (const id of ids) this.ledger.records.add(id)
  }
}

function ceilingOf(kind: string): number {
  if (kind === 'direct') return CEILING_MS + SYNC_MS
  return kind === 'waiting' ? CEILING_MS + 2000 : CEILING_MS
}
