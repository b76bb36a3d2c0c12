import type { HttpError } from '../http/errors.js'
import { childPointer } from '../schema/pointer.js'
import type { ByteWindow } from './byte-window.js'
import type { ElementBatch } from './element-batch.js'
import { faultAt, malformed, type FaultPlace } from './element-fault.js'
import { ElementScanner } from './element-scanner.js'
import { hasUnsafeText, isPlain, parsedJson } from './element-text.js'
import { skipBlank, type TextPlace } from './text-place.js'

/** The bounds of a reader. */
export interface ReaderBounds {
  readonly maxElementBytes: number
  readonly maxItems: number
  readonly batchBytes: number
}

const OPEN = 0x5b
const CLOSE = 0x5d
const COMMA = 0x2c
const CUT = Buffer.from('},')
/** After a wrong guess so many blocks are scanned; twice as many after the next one. */
const FIRST_WAIT = 4
const LONGEST_WAIT = 64

/**
 * Reads the elements of one array, from behind its opening bracket to its closing one.
 *
 * A block is cut at a comma, put in brackets and parsed in one go. Why that is sound, whatever is
 * in it: let R be the text from the beginning of an element to a comma. What a JSON parser makes of
 * a text up to some character depends on nothing behind it. If `[R]` is an array of one or more
 * elements, then a parser that has read `[R` stands outside of any string, behind an element of the
 * outermost array, because the one bracket that follows ends the text. It stands there too when a
 * comma follows in the real text: so R is whole elements, the comma separates two, and all before
 * is as it would be in a parse of everything. If the comma is inside of an element, or R is no
 * JSON, `[R]` does not parse, and the block is scanned. So the cut may be guessed: at the last
 * `},`. A blank R is the one that parses without being elements: it may stand only before the
 * closing bracket of an array that has none.
 */
export class ItemReader {
  /** How many elements were read so far. */
  count = 0
  fault: HttpError | undefined
  private items: unknown[] = []
  private plain = true
  private readonly scanner = new ElementScanner()
  private wait = 0
  private nextWait = FIRST_WAIT

  /**
   * @param pointer - of the array
   * @param before - text that leads a parser to where the array stands
   */
  constructor(
    private readonly window: ByteWindow, private readonly place: TextPlace, private readonly bounds: ReaderBounds,
    private readonly pointer: string, private readonly before: string,
  ) {
    this.scanner.restart(window.start)
  }

  /** The bytes of the window lie elsewhere now. */
  moved(by: number): void {
    this.scanner.at += by
  }

  /** What was read since the last time. */
  take(): ElementBatch | undefined {
    const { items, plain, count } = this
    if (items.length === 0) return undefined
    this.items = []
    this.plain = true
    return { start: count - items.length, items, plain }
  }

  /** Reads what is whole in the window. Tells whether the array has ended. */
  read(ended: boolean): boolean {
    const guessed = this.guess()
    return this.fault === undefined && (ended || !guessed) && this.scan(ended)
  }

  private guess(): boolean {
    const { window, scanner, bounds } = this
    const { bytes, start, end } = window
    if (scanner.at - start > bounds.batchBytes) return false
    if (this.wait > 0) {
      this.wait--
      return false
    }
    const cut = bytes.subarray(0, end).lastIndexOf(CUT) + 1
    if (cut > start && cut - start <= bounds.maxElementBytes && this.use(cut)) {
      scanner.restart(window.start)
      this.nextWait = FIRST_WAIT
      return true
    }
    this.wait = this.nextWait
    this.nextWait = Math.min(LONGEST_WAIT, this.wait * 2)
    return false
  }

  /** Goes from comma to comma, and takes all elements that end in the window in one go. */
  private scan(ended: boolean): boolean {
    const { window, scanner } = this
    const { bytes, end } = window
    let element = window.start
    let stop: number
    for (;;) {
      stop = scanner.next(bytes, end)
      if ((stop === -1 ? end : stop) - element > this.bounds.maxElementBytes || bytes[stop] !== COMMA) break
      element = stop + 1
    }
    const large = (stop === -1 ? end : stop) - element > this.bounds.maxElementBytes
    const closed = !large && bytes[stop] === CLOSE
    const cut = closed ? stop : element - 1
    if (cut >= window.start && !this.use(cut)) this.takeEach(cut)
    if (this.fault !== undefined) return false
    if (large) this.fault = this.tooLarge()
    else if (!closed && (stop !== -1 || ended)) this.fault = this.malformed(stop === -1 ? end : stop + 1, true)
    return closed
  }

  /** Uses all that is before `cut` if it is elements, and nothing is the matter with them. */
  private use(cut: number): boolean {
    const { window } = this
    const text = window.textBetween(OPEN, window.start, cut, CLOSE)
    const items = text === undefined ? undefined : parsedJson(text) as unknown[] | undefined
    if (text === undefined || items === undefined) return false
    const fits = this.count + items.length <= this.bounds.maxItems && !hasUnsafeText(text, items)
    const empty = items.length === 0 && (this.count > 0 || window.bytes[cut] === COMMA)
    if (!fits || empty) return false
    this.plain &&= isPlain(text)
    if (this.items.length === 0) this.items = items
    else for (const item of items) this.items.push(item)
    this.count += items.length
    this.place.advance(text, 1, text.length - 1)
    this.place.advance(',', 0, 1)
    window.start = cut + 1
    return true
  }

  /** There is a fault before `cut`, or at it: takes the elements that come before that. */
  private takeEach(cut: number): void {
    const { window } = this
    const each = new ElementScanner()
    each.restart(window.start)
    while (window.start <= cut) {
      const stop = each.next(window.bytes, cut + 1)
      if (!this.use(stop)) {
        this.fault = this.faultOf(stop)
        return
      }
    }
  }

  /** Why one element was not taken. */
  private faultOf(stop: number): HttpError {
    const fault = this.malformed(stop + 1, false)
    if (fault !== undefined) return fault
    skipBlank(this.window, this.place)
    const { maxItems } = this.bounds
    if (this.count < maxItems) return faultAt('unsafe_key', this.where(), 'The body has a key that is not allowed', 'begins the item that has it')
    return faultAt('body_too_large', this.where(), `The body has more than ${maxItems} items`, 'begins one too many')
  }

  /**
   * What is not JSON in the text up to `to`; where it is only cut short, that counts when it is
   * `whole`.
   */
  private malformed(to: number, whole: boolean): HttpError | undefined {
    const rest = this.window.text(this.window.start, to)
    if (rest !== undefined) return malformed(this.where(), this.lead(), rest, whole)
    skipBlank(this.window, this.place)
    return faultAt('malformed_json', this.where(), 'The body is not valid JSON', 'begins an item that is not UTF-8')
  }

  private tooLarge(): HttpError {
    const { window, bounds } = this
    const { start, bytes } = window
    const { maxElementBytes } = bounds
    // Perhaps it is only so large because of a quote or a bracket that is missing.
    const fault = malformed(this.where(), this.lead(), bytes.toString('utf8', start, start + maxElementBytes), false)
    if (fault !== undefined) return fault
    skipBlank(window, this.place)
    return faultAt('body_too_large', this.where(), 'The body has an item that is too large', `begins an item of more than ${maxElementBytes} bytes`)
  }

  private where(): FaultPlace {
    return { item: this.count, pointer: childPointer(this.pointer, this.count), place: this.place }
  }

  private lead(): string {
    return `${this.before}${this.count > 0 ? '[0,' : '['}`
  }
}
