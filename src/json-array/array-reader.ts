import { httpError, type HttpError } from '../http/errors.js'
import { toPointer } from '../schema/pointer.js'
import { ArrayFrame } from './array-frame.js'
import { ByteWindow } from './byte-window.js'
import type { ElementBatch, ElementOptions } from './element-batch.js'
import { ItemReader, type ReaderBounds } from './item-reader.js'
import { TextPlace } from './text-place.js'

/**
 * Reads the elements of a JSON array from bytes as they arrive, however they are cut. It accepts
 * what `parseJsonBytes` accepts of the whole and gives the same elements, but for bounds of its
 * own; at a fault it has given all elements that come before it.
 */
export class ArrayReader {
  /** Set once the reading can't go on: it comes behind the elements of the last batch. */
  fault: HttpError | undefined
  private readonly bounds: ReaderBounds
  private readonly window: ByteWindow
  private readonly place = new TextPlace()
  private readonly frame: ArrayFrame
  private readonly pointer: string
  private items: ItemReader | undefined
  private inItems = false
  private fresh = 0
  private begun = false

  /** @throws {TypeError} when an option makes no sense */
  constructor({ member, alone = false, maxElementBytes = 1_048_576, maxItems = Infinity, batchBytes = 65_536 }: ElementOptions = {}) {
    check('maxElementBytes', maxElementBytes, 268_435_456)
    check('batchBytes', batchBytes, 16_777_216)
    if (!(maxItems >= 0)) throw new TypeError('readElements: maxItems must be 0 or more')
    this.bounds = { maxElementBytes, maxItems, batchBytes }
    this.window = new ByteWindow(maxElementBytes + 2 * batchBytes + 2)
    this.frame = new ArrayFrame(this.window, this.place, member, maxElementBytes, alone)
    this.pointer = toPointer(member === undefined ? [] : [member])
  }

  /**
   * The elements that end in this chunk or in what is left of earlier ones; `undefined` when there
   * are none, or there is too little to be worth the while. The chunk may be used again afterwards.
   * Give it `batchBytes` or less at a time.
   */
  read(chunk: Uint8Array): ElementBatch | undefined {
    if (chunk.byteLength === 0 || this.fault !== undefined) return undefined
    const by = this.window.append(chunk)
    this.frame.moved(by)
    this.items?.moved(by)
    this.begun = true
    this.fresh += chunk.byteLength
    return this.fresh < this.bounds.batchBytes ? undefined : this.run(false)
  }

  /** The elements that are left. Call it once, when the bytes have ended. */
  end(): ElementBatch | undefined {
    if (this.fault !== undefined) return undefined
    if (this.begun) return this.run(true)
    this.fault = httpError('missing_body')
    return undefined
  }

  private run(ended: boolean): ElementBatch | undefined {
    this.fresh = 0
    while (this.step(ended));
    this.fault = this.frame.fault ?? this.items?.fault
    if (ended && this.fault === undefined && !this.frame.over) throw new Error('readElements: the bytes ended before the array did')
    return this.items?.take()
  }

  /** Whether there is more to do with the bytes at hand. */
  private step(ended: boolean): boolean {
    const { frame, items } = this
    if (this.inItems && items !== undefined) {
      this.inItems = !items.read(ended)
      if (!this.inItems) frame.leaveArray(items.count)
      return !this.inItems
    }
    const step = frame.step(ended)
    if (step === 'array') {
      this.items = new ItemReader(this.window, this.place, this.bounds, this.pointer, frame.beforeArray)
      this.inItems = true
    }
    return step !== 'more' && frame.fault === undefined
  }
}

function check(name: string, bytes: number, most: number): void {
  if (Number.isInteger(bytes) && bytes >= 1 && bytes <= most) return
  throw new TypeError(`readElements: ${name} must be a whole number from 1 to ${most}`)
}
