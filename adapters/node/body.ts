import { IncomingMessage } from 'node:http'
import type { BodySource } from '../../src/http/exchange.js'
import { ContentDigest } from '../../src/http/fields/digests.js'
import { httpError, type HttpError } from '../../src/http/errors.js'
import { Gathered } from '../../src/runtime/text.js'
import type { HostRequest, HostResponse } from './host.js'

const NOTHING = new Uint8Array(0)

const READ_BEFORE = 'The body of this request was read before longhaul saw it, and nothing of it is left. '
  + 'Mount longhaul before the body parser, or hand over what the parser made: handle(req, res, { body })'

const READ_TWICE = 'The body of this request was asked for twice; it can be read only once'

/** The body of one node:http request. Nothing is read, and no 100 is sent, before somebody asks. */
export class NodeBody implements BodySource {
  private readonly req: HostRequest
  private readonly res: HostResponse
  private readonly left: unknown
  /** The client waits for a 100 before it sends anything. */
  waiting: boolean
  /** We have asked the connection for bytes. */
  begun = false
  /** A reader is at it just now. */
  reading = false
  private streams = false
  private stopped = false
  private wake: () => void = ignore

  constructor(req: HostRequest, res: HostResponse, left: unknown, waiting: boolean) {
    this.req = req
    this.res = res
    this.left = left
    this.waiting = waiting
  }

  /**
   * The body as the host parsed it, if the host has read it: Express 4 puts `{}` on requests that
   * it left alone. Where that is text or bytes, `bytes` and `stream` give it too.
   */
  get parsed(): { readonly value: unknown } | undefined {
    return this.readByHost && this.left !== undefined ? { value: this.left } : undefined
  }

  // No async function: each accepted request would pay for three more turns of the microtask queue.
  bytes(limit: number): Promise<Uint8Array | undefined> {
    if (this.readByHost) return this.leftWithin(limit)
    if (Number(this.req.headers['content-length']) > limit) return Promise.resolve(undefined)
    const digest = ContentDigest.of(this.req.headers)
    const reading = collect(this, this.req, limit)
    return digest === undefined ? reading : reading.then((bytes) => bytes && digest.check(bytes))
  }

  stream(): AsyncGenerator<Uint8Array> {
    const { headers } = this.req
    const digest = this.readByHost ? ContentDigest.ofParsed(headers) : ContentDigest.of(headers)
    return digest === undefined ? this.pieces() : digest.checked(this.pieces())
  }

  stop(): void {
    this.stopped = true
    this.wake()
  }

  private async * pieces(): AsyncGenerator<Uint8Array> {
    if (this.readByHost) {
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
        else if (req.readableEnded) return
        else if (req.destroyed || this.stopped) throw cutShort()
        else await new Promise<void>((resolve) => { this.wake = resolve })
      }
    } finally {
      for (const event of EVENTS) req.off(event, woken)
      this.reading = false
    }
  }

  private get readByHost(): boolean {
    return this.req.readableDidRead && !this.begun
  }

  private async leftWithin(limit: number): Promise<Uint8Array | undefined> {
    const bytes = this.leftBytes()
    if (bytes.byteLength > limit) return undefined
    return ContentDigest.ofParsed(this.req.headers)?.check(bytes) ?? bytes
  }

  private leftBytes(): Uint8Array {
    const bytes = bytesOf(this.left)
    if (bytes !== undefined) return bytes
    if (this.req.readableAborted) throw cutShort()
    throw new Error(READ_BEFORE)
  }

  /**
   * Takes the body for one reader, and asks the client for it where it waits for that. Throws when
   * it can't be read.
   */
  begin(): void {
    if (this.begun) throw new Error(READ_TWICE)
    if (this.req.destroyed && !this.streams) throw cutShort()
    this.begun = true
    this.reading = true
    if (!this.waiting) return
    this.waiting = false
    if (!this.res.headersSent) this.res.writeContinue()
  }
}

const EVENTS = ['readable', 'end', 'error', 'close'] as const

/**
 * Reads to the end by plain listeners: a body in one chunk, the usual case, is not copied. After
 * the end the listeners stay on a request that emits nothing more but `close`; taking them off
 * would cost 3 % of a small POST.
 */
function collect(body: NodeBody, req: HostRequest, limit: number): Promise<Uint8Array | undefined> {
  return new Promise((resolve, reject) => {
    body.begin()
    let first: Uint8Array | undefined
    let more: Gathered | undefined
    let size = 0
    const data = (chunk: Uint8Array): void => {
      size += chunk.byteLength
      if (size > limit) {
        req.pause()
        stop()
        resolve(undefined)
      } else if (first === undefined) first = chunk
      else {
        if (more === undefined) {
          more = new Gathered()
          more.add(first)
        }
        more.add(chunk)
      }
    }
    const end = (): void => {
      body.reading = false
      resolve(more?.bytes ?? first ?? NOTHING)
      first = more = undefined
    }
    const fail = (): void => {
      if (!body.reading) return
      stop()
      reject(cutShort())
    }
    const stop = (): void => {
      body.reading = false
      req.off('data', data)
      req.off('end', end)
      req.off('error', fail)
      req.off('close', fail)
    }
    req.on('data', data)
    req.on('end', end)
    req.on('close', fail)
    // Of node:http's own requests `close` is enough: they emit `error` only where somebody listens.
    const plain: boolean = req instanceof IncomingMessage
    if (!plain) req.on('error', fail)
  })
}

function bytesOf(value: unknown): Uint8Array | undefined {
  if (typeof value === 'string') return Buffer.from(value)
  return ArrayBuffer.isView(value)
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : undefined
}

/** Without a cause, since an error with one is reported, and a client that goes away is no news. */
function cutShort(): HttpError {
  return httpError('incomplete_body')
}

function ignore(): void {}
