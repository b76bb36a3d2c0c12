import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Webhook } from 'standardwebhooks'
import type { Ledger } from './ledger.js'
import { SECRET } from './terms.js'

/** Hears callbacks, and refuses one in five of the first attempts. */
export class Receiver {
  /** Bodies by hook and message. */
  readonly heard = new Map<string, Map<string, string>>()
  repeated = 0
  private count = 0

  private constructor(private readonly server: Server, private readonly ledger: Ledger) {
    const webhook = new Webhook(SECRET)
    server.on('request', (req, res) => {
      let body = ''
      req.setEncoding('utf8').on('data', (text: string) => { body += text }).on('end', () => {
        if (++this.count % 5 === 0) {
          res.writeHead(500).end()
          return
        }
        try {
          const [id, seconds] = [String(req.headers['webhook-id']), Number(req.headers['webhook-timestamp'])]
          // The clock of the sender may be wrong, so the time is not compared.
          const isSigned = webhook.sign(id, new Date(seconds * 1000), body) === req.headers['webhook-signature']
          if (!isSigned) this.ledger.fault('a callback whose signature is wrong')
          this.hear(req.url ?? '', id, body)
        } catch (error) {
          this.ledger.fault(`a callback that cannot be read: ${String(error)}`)
        }
        res.end()
      }).on('error', () => undefined)
    })
  }

  static async start(ledger: Ledger): Promise<Receiver> {
    const server = createServer()
    await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
    return new Receiver(server, ledger)
  }

  get url(): string {
    return `http://127.0.0.1:${String((this.server.address() as AddressInfo).port)}`
  }

  stop(): void {
    this.server.close()
    this.server.closeAllConnections()
  }

  private hear(hook: string, id: string, body: string): void {
    let messages = this.heard.get(hook)
    if (!messages) this.heard.set(hook, messages = new Map())
    const known = messages.get(id)
    if (known !== undefined) this.repeated++
    if (known !== undefined && known !== body)
      this.ledger.fault('one callback came with two bodies', `${hook} ${String(known)} ${body}`)
    messages.set(id, body)
    if (messages.size > 1) this.ledger.fault('one task has callbacks of two ids', hook)
  }
}
