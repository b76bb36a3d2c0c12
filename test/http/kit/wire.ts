// A client that shows what is on the wire.
import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import { connect, type Socket } from 'node:net'

export interface Answer {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

/** Sends one request on a connection of its own and reads the whole answer; rejects when it is cut. */
export async function ask(
  port: number,
  method: string,
  path: string,
  { headers = {}, body }: { headers?: OutgoingHttpHeaders, body?: string | Buffer } = {}
): Promise<Answer> {
  const response = await open(port, method, path, { headers, ...body !== undefined && { body } })
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks).toString() }
}

/** The same, up to the head of the answer; its body is unread. */
export function open(
  port: number,
  method: string,
  path: string,
  { headers = {}, body }: { headers?: OutgoingHttpHeaders; body?: string | Buffer } = {},
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ port, host: '127.0.0.1', method, path, headers, agent: false })
    request.on('response', resolve)
    request.on('error', reject)
    request.end(body)
  })
}

/** A bare connection that keeps what it has received. */
export class Wire {
  readonly socket: Socket
  text = ''
  closed = false

  constructor(port: number, first?: string) {
    this.socket = connect(port, '127.0.0.1')
    this.socket.on('data', (chunk) => { this.text += chunk.toString('latin1') })
    this.socket.on('close', () => { this.closed = true })
    this.socket.on('error', () => {})
    if (first !== undefined) this.socket.write(first)
  }

  /** Waits until `pattern` has arrived. */
  async until(pattern: RegExp): Promise<void> {
    while (!pattern.test(this.text)) {
      if (this.closed) throw new Error(`closed before ${String(pattern)}: ${this.text}`)
      await this.event()
    }
  }

  private event(): Promise<void> {
    return new Promise((resolve) => {
      const happened = (): void => {
        this.socket.off('data', happened)
        this.socket.off('close', happened)
        resolve()
      }
      this.socket.on('data', happened)
      this.socket.on('close', happened)
    })
  }

  /** Waits for the end and gives all that came. */
  async end(): Promise<string> {
    while (!this.closed) await this.event()
    return this.text
  }
}

/** Waits until `condition` holds; fails after 20 s. */
export async function eventually(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const late = Date.now() + 20_000
  while (!await condition()) {
    if (Date.now() > late) throw new Error(`never happened: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
