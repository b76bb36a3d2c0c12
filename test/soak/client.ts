import { Agent, request } from 'node:http'
import type { Ledger } from './ledger.js'
import type { Random } from './random.js'

export interface Answer {
  readonly status: number
  readonly location: string | undefined
  readonly text: string
}

export interface AskOptions {
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** Time after which a response is a fault, in milliseconds. */
  readonly ceilingMs?: number
}

/** A request gets its response in five seconds, in any outage. The rest is for a busy machine. */
export const CEILING_MS = 15_000
/** Default of `syncTimeoutMs`: a synchronous request may wait so long for its task. */
export const SYNC_MS = 30_000

/** Asks the web processes, each time a random one, and tells the ledger of each answer. */
export class Client {
  private readonly agent = new Agent({ keepAlive: true, maxSockets: 64 })

  constructor(
    private readonly webs: readonly string[], private readonly random: Random,
    private readonly ledger: Ledger,
  ) {}

  /** `undefined`: there was no answer, or none that is whole. */
  ask(
    kind: string, method: string, path: string, options: AskOptions = {},
  ): Promise<Answer | undefined> {
    const { headers, body, ceilingMs = CEILING_MS } = options
    const began = performance.now()
    return new Promise((resolve) => {
      const end = (answer: Answer | undefined, how: number | string): void => {
        this.ledger.answered(kind, how, performance.now() - began, ceilingMs)
        resolve(answer)
      }
      const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
      const url = this.random.one(this.webs) + path
      let begun = false
      const settings = { method, agent: this.agent, headers: { ...headers, ...length } }
      const outgoing = request(url, settings, (answer) => {
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

  /** Closes the connections. The next request opens new ones. */
  close(): void {
    this.agent.destroy()
  }
}
