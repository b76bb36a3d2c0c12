import { IncomingMessage, type ServerResponse } from 'node:http'
import { BindingBody, cutShort, READ_TWICE } from '../../src/http/body/source.js'
import { ContentDigest } from '../../src/http/headers/digests.js'
import { Gathered } from '../../src/runtime/text.js'
import type { HostRequest, HostResponse } from './host.js'

const BODY = Symbol('longhaul.body')

type ReadingResponse = ServerResponse & { [BODY]?: NodeBody }

/** Returns the body that the handler of a response reads, if the handler has been called. */
export function bodyOf(res: ServerResponse): NodeBody | undefined {
  return (res as ReadingResponse)[BODY]
}

/** Body of a request of node:http. Reads nothing, and sends no 100, before a handler reads it. */
export class NodeBody extends BindingBody {
  private readonly req: HostRequest
  private readonly res: HostResponse
  waiting: boolean
  begun = false
  reading = false
  private streams = false
  private stopped = false
  /** Error of a body whose rest cannot arrive, because the request is malformed or too slow. */
  private broken: Error | undefined
  private wake: () => void = ignore
  private fail: ((error: Error) => void) | undefined

  constructor(req: HostRequest, res: HostResponse, left: unknown, waiting: boolean) {
    super(left)
    this.req = req
    this.res = res
    const reading = res as ReadingResponse
    const before = reading[BODY]
    if (before !== undefined) {
      // It may have broken before an earlier handler declined the request.
      this.broken = before.broken
      this.stopped = before.stopped
    }
    reading[BODY] = this
    this.waiting = waiting
  }

  // Not async, which would cost each request three more turns of the microtask queue.
  bytes(limit: number): Promise<Uint8Array | undefined> {
    if (this.wasRead) return this.leftWithin(limit)
    // A parser has read an empty body.
    if (this.req.readableEnded && !this.begun) return Promise.resolve(new Uint8Array())
    if (Number(this.req.headers['content-length']) > limit) return Promise.resolve(undefined)
    const digest = ContentDigest.of(this.req.headers)
    const reading = this.collect(limit)
    return digest === undefined ? reading : reading.then((bytes) => bytes && digest.check(bytes))
  }

  stream(): AsyncGenerator<Uint8Array> {
    const digest = this.digestOf(this.req.headers)
    return digest === undefined ? this.pieces() : digest.checked(this.pieces())
  }

  stop(): void {
    this.stopped = true
    this.wake()
  }

  /**
   * True if a handler has begun to read the body, or may begin, and the end of the body has not
   * arrived.
   */
  get canBreak(): boolean {
    return !this.req.complete && !this.wasRead
  }

  /** True if the client has disconnected. A reset stream of HTTP/2 ends like a complete stream. */
  get isCut(): boolean {
    const { req } = this
    return req.aborted || (req.destroyed && !req.readableEnded)
  }

  get isBroken(): boolean {
    return this.broken !== undefined
  }

  /** Makes the body fail with `error` once the bytes that have arrived are read. */
  break(error: Error): void {
    this.broken ??= error
    this.wake()
    this.fail?.(this.broken)
  }

  private async * pieces(): AsyncGenerator<Uint8Array> {
    if (this.wasRead) {
      yield this.leftBytes()
      return
    }
    // Bytes that arrived before the connection broke can still be read.
    this.streams = true
    this.begin()
    const { req } = this
    const woken = (): void => this.wake()
    for (const event of EVENTS) req.on(event, woken)
    try {
      for (;;) {
        const chunk = this.stopped ? null : req.read() as Uint8Array | null
        if (chunk !== null) yield chunk
        else if (this.isCut || this.stopped) throw cutShort()
        else if (req.readableEnded) return
        else if (this.broken) throw this.broken
        else await new Promise<void>((resolve) => { this.wake = resolve })
      }
    } finally {
      for (const event of EVENTS) req.off(event, woken)
      this.reading = false
    }
  }

  protected get wasRead(): boolean {
    return this.req.readableDidRead && !this.begun
  }

  private async leftWithin(limit: number): Promise<Uint8Array | undefined> {
    const bytes = this.leftBytes()
    if (bytes.byteLength > limit) return undefined
    return this.digestOf(this.req.headers)?.check(bytes) ?? bytes
  }

  protected override lostError(): Error {
    return this.req.readableAborted ? cutShort() : super.lostError()
  }

  /** Reads to the end. The listeners stay, because removing them would cost 3 % of a small POST. */
  private collect(limit: number): Promise<Uint8Array | undefined> {
    const { req } = this
    return new Promise((resolve, reject) => {
      this.begin()
      let gathered: Gathered | undefined = new Gathered()
      const data = (chunk: Uint8Array): void => {
        if (gathered === undefined) return
        if (gathered.size + chunk.byteLength <= limit) {
          gathered.keep(chunk)
          return
        }
        req.pause()
        stop()
        resolve(undefined)
      }
      const end = (): void => {
        if (this.isCut) return fail()
        this.reading = false
        resolve(gathered?.bytes)
        gathered = undefined
      }
      // Creates the error, with its stack, only for a body that is cut short: every request closes.
      const fail = (error?: Error): void => {
        if (!this.reading) return
        stop()
        reject(error ?? cutShort())
      }
      const stop = (): void => {
        this.reading = false
        req.off('data', data)
        req.off('end', end)
        req.off('close', fail)
      }
      req.on('data', data)
      req.on('end', end)
      req.on('close', fail)
      this.fail = fail
      // Requests of node:http emit `error` only if it has a listener, so `close` is enough for them.
      const isPlain: boolean = req instanceof IncomingMessage
      if (!isPlain) req.on('error', () => { fail() })
    })
  }

  /** Begins to read. Sends a 100 if the client waits for it. Throws if the body cannot be read. */
  private begin(): void {
    if (this.begun) throw new Error(READ_TWICE)
    if (this.req.destroyed && !this.streams) throw cutShort()
    if (this.broken && !this.streams) throw this.broken
    this.begun = true
    this.reading = true
    if (!this.waiting) return
    this.waiting = false
    if (!this.res.headersSent) this.res.writeContinue()
  }
}

const EVENTS = ['readable', 'end', 'error', 'close'] as const

function ignore(): void {}
