import { setTimeout as sleep } from 'node:timers/promises'
import { CEILING_MS, SYNC_MS, type Client } from './client.js'
import type { Ledger, Promised } from './ledger.js'
import type { Random } from './random.js'
import { LIMITED_OWNERS, type WorkInput } from './terms.js'

const HEAVY_OWNERS = ['heavy-0', 'heavy-1', 'heavy-2', 'heavy-3'] as const
/** Tasks that two heavy owners submit at once, and how long each takes, in milliseconds. */
const BURST = 100
const FAIR_MS = 300
/** Number of business keys. */
const KEYS = 8

interface Submitted extends WorkInput {
  readonly unique?: string
  readonly ifExists?: 'return' | 'replace'
  readonly delayMs?: number
}

/** Clients of the pools with limits, and clients with business keys. */
export class LimitedLoad {
  constructor(
    private readonly client: Client, private readonly random: Random, private readonly ledger: Ledger,
  ) {}

  /** Submits until `signal` aborts. Resolves when all responses are there. */
  async run(signal: AbortSignal): Promise<void> {
    const { random } = this
    const under = new Set<Promise<void>>()
    const again = async (
      everyMs: readonly [number, number], submit: () => Promise<void>,
    ): Promise<void> => {
      while (!signal.aborted) {
        const one = submit().finally(() => under.delete(one))
        under.add(one)
        await sleep(random.between(...everyMs), undefined, { signal }).catch(() => undefined)
      }
    }
    await Promise.all([
      again([10_000, 20_000], () => this.burst()),
      again([500, 2500], () => this.newcomer()),
      again([100, 700], () => this.limited()),
      again([500, 1500], () => this.unique()),
    ])
    await Promise.all(under)
  }

  /** Submits a task. Returns it if it was acknowledged. */
  async submit(
    kind: string, owner: string, input: Partial<Submitted>,
  ): Promise<Promised | undefined> {
    const n = ++this.ledger.submissions
    const ms = Math.round(this.random.between(0, 1000))
    const body = JSON.stringify({ n, mode: 'ok', ms, ...input })
    const isDirect = kind === 'limitedDirect'
    const headers = {
      'content-type': 'application/json', 'x-owner': owner,
      ...!isDirect && { prefer: 'respond-async' },
    }
    const ceilingMs = isDirect ? CEILING_MS + SYNC_MS : CEILING_MS
    const answer = await this.client.ask(kind, 'POST', isDirect ? '/limited' : `/${kind}`, {
      headers, body, ceilingMs,
    })
    if (answer?.status !== 202 || answer.location === undefined) {
      this.ledger.unsure++
      return undefined
    }
    const id = answer.location.slice(answer.location.lastIndexOf('/') + 1)
    const { mode = 'ok' } = input
    const path = answer.location
    return this.ledger.promise({ id, owner, mode, path, hook: undefined, cancelAsked: false })
  }

  /** Submits a task again and again until it is acknowledged. */
  async submitSurely(kind: string, owner: string, input: Partial<Submitted>): Promise<Promised> {
    for (;;) {
      const task = await this.submit(kind, owner, input)
      if (task) return task
      await sleep(200)
    }
  }

  /** Returns whether the response tells of a task that has ended. */
  async cancel(task: Promised): Promise<boolean> {
    task.cancelAsked = true
    const headers = { 'x-owner': task.owner }
    const answer = await this.client.ask('cancel', 'DELETE', task.path, { headers })
    return answer?.status === 200 || answer?.status === 409
  }

  /** Cancels a task again and again until it has ended. */
  async cancelSurely(task: Promised): Promise<void> {
    while (!await this.cancel(task)) await sleep(200)
  }

  /** Two owners submit many tasks at once, so that others have to wait for their turns. */
  private async burst(): Promise<void> {
    const owners = [this.random.one(HEAVY_OWNERS), this.random.one(HEAVY_OWNERS)]
    await Promise.all(Array.from({ length: BURST }, (_, at) => (
      this.submit('fair', owners[at % 2] ?? '', { ms: FAIR_MS })
    )))
  }

  /** An owner who was never there submits one task. */
  private async newcomer(): Promise<void> {
    await this.submit('fair', `new-${String(this.ledger.submissions)}`, { ms: FAIR_MS })
  }

  private async limited(): Promise<void> {
    const { random } = this
    const owner = random.chance(0.5) ? LIMITED_OWNERS[0] ?? '' : random.one(LIMITED_OWNERS)
    if (random.chance(0.1)) {
      await this.submit('limitedDirect', owner, {})
      return
    }
    const mode = random.pick({ ok: 8, fails: 1, flaky: 2 })
    const task = await this.submit('limited', owner, { mode })
    if (!task || random.chance(0.9)) return
    await sleep(random.between(0, 1000))
    await this.cancel(task)
  }

  /** A client submits the same thing several times in a short time. */
  private async unique(): Promise<void> {
    const { random } = this
    const key = Math.floor(random.between(0, KEYS))
    const owner = LIMITED_OWNERS[key % LIMITED_OWNERS.length] ?? ''
    const ifExists = random.pick({ replace: 4, return: 1 })
    for (let left = random.one([1, 2, 4]); left > 0; left--) {
      const delayMs = random.one([0, 0, 200, 600])
      await this.submit('unique', owner, { unique: `key-${String(key)}`, ifExists, delayMs })
      await sleep(random.between(0, 250))
    }
  }
}
