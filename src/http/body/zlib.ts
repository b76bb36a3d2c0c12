import type { Transform } from 'node:stream'
import * as zlib from 'node:zlib'

export type ZlibEngine = Transform & { readonly bytesWritten: number }

export const zlibConstants = zlib.constants as unknown as Readonly<Record<string, number>>
/** The functions for zstd, which Node 22.15 and later have. The types are those of Node 20. */
export const zstd = zlib as unknown as Partial<
  Record<'createZstdCompress' | 'createZstdDecompress', (options: object) => ZlibEngine>
>

interface Flushable { flush(kind: number, done: () => void): void }

/**
 * Drives an engine step by step: write bytes, then read all output they produce. The engine makes
 * no more than a chunk or two ahead of the reader.
 */
export class ZlibPump {
  private underWay = 0
  private ending = false
  private closed = false
  private failure: Error | undefined
  private wake: () => void = ignore
  private ended = false

  constructor(private readonly engine: ZlibEngine) {
    const woken = (): void => { this.wake() }
    engine.on('readable', woken)
    engine.on('end', () => {
      this.ended = true
      woken()
    })
    engine.on('error', (error: Error) => {
      this.failure ??= error
      woken()
    })
    engine.on('close', woken)
  }

  get used(): number { return this.engine.bytesWritten }

  get waiting(): number { return this.engine.writableLength }

  write(bytes: Uint8Array): void {
    this.engine.write(bytes, this.begun())
  }

  /** Makes the engine output all that it holds back, after the input written so far. */
  flush(kind: number): void {
    const engine = this.engine as unknown as Flushable
    engine.flush(kind, this.begun())
  }

  private begun(): () => void {
    this.underWay++
    return () => {
      this.underWay--
      this.wake()
    }
  }

  end(): void {
    this.ending = true
    this.engine.end()
  }

  ready(): Uint8Array | undefined {
    const bytes = this.engine.read() as Uint8Array | null
    if (bytes === null && this.failure !== undefined) throw this.failure
    return bytes ?? undefined
  }

  async next(): Promise<Uint8Array | undefined> {
    for (;;) {
      const bytes = this.ready()
      if (bytes !== undefined || this.ended || this.closed) return bytes
      if (this.underWay === 0 && !this.ending) return undefined
      await new Promise<void>((resolve) => { this.wake = resolve })
    }
  }

  close(): void {
    this.closed = true
    this.engine.destroy()
    this.wake()
  }
}

function ignore(): void {}

const MAGIC = 0xfd2fb528
/** The magic number of a skippable frame, without its last four bits. */
const SKIPPABLE = 0x184d2a5
const RLE = 1

type Part =
  | 'magic' | 'skippable size' | 'descriptor' | 'window' | 'dictionary' | 'size' | 'block header'
  | 'content' | 'checksum'

const SKIPPED: ReadonlySet<Part> = new Set(['dictionary', 'content', 'checksum'])

/**
 * Follows the frames of a zstd text (RFC 8878 section 3): their ends, so that one decoder can
 * decode all, and their windows. Detects a text that ends inside a frame, which Node 22 accepts.
 */
export class ZstdFrames {
  private part: Part = 'magic'
  private left = 4
  private value = 0
  private read = 0
  private descriptor = 0
  private lastBlock = false
  window = 0

  /** True if the text may end here: no frame is open. */
  get complete(): boolean { return this.part === 'magic' && this.read === 0 }

  /** Reads bytes up to the end of a frame. Returns their number; all if no frame ends in them. */
  push(bytes: Uint8Array): number {
    for (let at = 0; at < bytes.length;) {
      if (SKIPPED.has(this.part)) {
        const skipped = Math.min(this.left, bytes.length - at)
        at += skipped
        this.left -= skipped
      } else {
        this.value += (bytes[at++] as number) * 2 ** (8 * this.read++)
        this.left--
      }
      // A part can be empty, such as the content of a block.
      while (this.left === 0) this.next()
      if (this.complete) return at
    }
    return bytes.length
  }

  private next(): void {
    const { value } = this
    this.value = 0
    this.read = 0
    switch (this.part) {
      case 'magic':
        if (value >>> 4 === SKIPPABLE) this.begin('skippable size', 4)
        else if (value === MAGIC) this.begin('descriptor', 1)
        else this.begin('content', Infinity)
        return
      case 'skippable size':
        this.descriptor = 0
        this.lastBlock = true
        this.begin('content', value)
        return
      case 'descriptor':
        this.descriptor = value
        this.begin('window', isSingle(value) ? 0 : 1)
        return
      case 'window':
        if (!isSingle(this.descriptor)) this.noteWindow(windowOf(value))
        this.begin('dictionary', [0, 1, 2, 4][this.descriptor & 3] as number)
        return
      case 'dictionary':
        this.begin('size', sizeBytes(this.descriptor))
        return
      case 'size':
        // A frame of a single segment has no window but its content.
        if (isSingle(this.descriptor)) this.noteWindow(value)
        this.begin('block header', 3)
        return
      case 'block header':
        this.lastBlock = (value & 1) !== 0
        this.begin('content', (value >> 1 & 3) === RLE ? 1 : value >> 3)
        return
      case 'content':
        if (!this.lastBlock) this.begin('block header', 3)
        else if ((this.descriptor & 4) !== 0) this.begin('checksum', 4)
        else this.begin('magic', 4)
        return
      case 'checksum':
        this.begin('magic', 4)
    }
  }

  private noteWindow(bytes: number): void {
    this.window = Math.max(this.window, bytes)
  }

  private begin(part: Part, bytes: number): void {
    this.part = part
    this.left = bytes
  }
}

function isSingle(descriptor: number): boolean {
  return (descriptor & 0x20) !== 0
}

function sizeBytes(descriptor: number): number {
  return [isSingle(descriptor) ? 1 : 0, 2, 4, 8][descriptor >> 6] as number
}

function windowOf(descriptor: number): number {
  const base = 2 ** (10 + (descriptor >> 3))
  return base + base / 8 * (descriptor & 7)
}
