import type { ErrorCode, HttpError } from '../http/errors.js'
import { toPointer } from '../schema/pointer.js'
import type { ByteWindow } from './byte-window.js'
import { faultAt, malformed, UNKNOWN_MEMBER, type FaultPlace } from './element-fault.js'
import { ElementScanner } from './element-scanner.js'
import { hasUnsafeText, parsedJson } from './element-text.js'
import { skipBlank, type TextPlace } from './text-place.js'

const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d
const COMMA = 0x2c
const MARK = Buffer.from('\uFEFF')
/** What a JSON value begins with. */
const VALUE_STARTS = '{["-0123456789tfn'
/** The name of a member up to the first character of its value. */
const HEAD = /^("(?:[^"\\]|\\.)*")[ \t\n\r]*:[ \t\n\r]*([^ \t\n\r])/s
/** A longer one is refused, since it is looked for anew when more bytes are there. */
const MAX_HEAD_BYTES = 65_536

/** Whether the frame needs more bytes, can go on, or has come to the array. */
export type FrameStep = 'more' | 'on' | 'array'

/**
 * Reads what stands around the array: nothing but white space, or the other members of its object.
 */
export class ArrayFrame {
  fault: HttpError | undefined
  /** Elements that were read, for the place of a fault behind them. */
  count = 0
  /** Whether the whole body has been read; white space may follow. */
  over = false
  /** Text that leads a JSON parser to where the reading is. */
  private before = ''
  private begun = false
  private seen = false
  private readonly pointer: string
  private readonly scanner = new ElementScanner()
  /** Whether the scanner is in a member. */
  private inMember = false

  constructor(
    private readonly window: ByteWindow, private readonly place: TextPlace,
    private readonly member: string | undefined, private readonly maxElementBytes: number, private readonly alone: boolean,
  ) {
    this.pointer = toPointer(member === undefined ? [] : [member])
  }

  /** Text that leads a parser to the array. */
  get beforeArray(): string {
    return this.member === undefined ? '' : '{"":'
  }

  /** The bytes of the window lie elsewhere now. */
  moved(by: number): void {
    this.scanner.at += by
  }

  /** The array was read, up to its closing bracket and with it. */
  leaveArray(count: number): void {
    this.count = count
    this.before = `${this.beforeArray}[]`
    this.over = this.member === undefined
  }

  step(ended: boolean): FrameStep {
    if (this.inMember) return this.readMember(ended)
    if (!this.begun && !this.begin(ended)) return 'more'
    skipBlank(this.window, this.place)
    if (this.window.length === 0) return ended && !this.over ? this.fail('') : 'more'
    if (this.over) return this.fail(this.peek())
    if (this.before === '') return this.open()
    if (this.before.endsWith(']')) return this.behindArray()
    return this.readHead(ended)
  }

  /** A byte order mark in front of everything is stepped over. */
  private begin(ended: boolean): boolean {
    const { window } = this
    if (window.length < MARK.length && !ended) return false
    if (window.bytes.subarray(window.start, Math.min(window.end, window.start + MARK.length)).equals(MARK)) window.start += MARK.length
    this.begun = true
    return true
  }

  private open(): FrameStep {
    const first = this.peek()
    const inObject = this.member !== undefined
    if (first !== (inObject ? '{' : '[')) {
      return VALUE_STARTS.includes(first) ? this.refuse('invalid_input', '', `must be an ${inObject ? 'object' : 'array'}`) : this.fail(first)
    }
    this.use(1)
    this.before = inObject ? '{' : '['
    return inObject ? 'on' : 'array'
  }

  private behindArray(): FrameStep {
    const byte = this.window.bytes[this.window.start]
    if (byte !== COMMA && byte !== CLOSE_OBJECT) return this.fail(this.peek())
    this.endMember(byte)
    return 'on'
  }

  /** The name of a member, and what its value begins with. */
  private readHead(ended: boolean): FrameStep {
    const { window } = this
    if (this.before === '{' && window.bytes[window.start] === CLOSE_OBJECT) return this.missing()
    const text = window.bytes.toString('latin1', window.start, Math.min(window.end, window.start + MAX_HEAD_BYTES))
    const head = HEAD.exec(text)
    if (head === null) return this.noHead(text, ended)
    const [all, key, first] = head as unknown as [string, string, string]
    const name = parsedJson(Buffer.from(key, 'latin1').toString())
    if (name !== this.member) {
      if (this.alone && typeof name === 'string' && !hasUnsafeText(`{${key}:1}`, { [name]: 1 })) return this.refuse('invalid_input', toPointer([name]), UNKNOWN_MEMBER)
      this.scanner.restart(window.start)
      this.inMember = true
      return 'on'
    }
    if (this.seen) return this.refuse('invalid_input', this.pointer, 'must stand there only once')
    this.seen = true
    if (first !== '[') {
      return VALUE_STARTS.includes(first) ? this.refuse('invalid_input', this.pointer, 'must be an array') : this.fail(Buffer.from(all, 'latin1').toString())
    }
    this.use(all.length)
    return 'array'
  }

  private noHead(text: string, ended: boolean): FrameStep {
    this.fault = malformed(this.where(''), this.before, Buffer.from(text, 'latin1').toString(), ended && text.length === this.window.length)
    if (this.fault !== undefined || text.length < MAX_HEAD_BYTES) return 'more'
    return this.refuse('body_too_large', '', `begins a name of more than ${MAX_HEAD_BYTES} bytes`)
  }

  /** A member that is not the array is held, checked and dropped. */
  private readMember(ended: boolean): FrameStep {
    const { window, maxElementBytes } = this
    const stop = this.scanner.next(window.bytes, window.end)
    if ((stop === -1 ? window.end : stop) - window.start > maxElementBytes) return this.tooLarge()
    if (stop === -1) return ended ? this.failTo(window.end) : 'more'
    const close = window.bytes[stop] as number
    const text = window.textBetween(OPEN_OBJECT, window.start, stop, CLOSE_OBJECT)
    const value = text === undefined ? undefined : parsedJson(text)
    if (text === undefined || value === undefined || (close !== COMMA && close !== CLOSE_OBJECT)) return this.failTo(stop + 1)
    if (hasUnsafeText(text, value)) return this.refuse('unsafe_key', '', 'begins a member with a key that is not allowed')
    this.use(stop - window.start)
    this.inMember = false
    this.endMember(close)
    return 'on'
  }

  private endMember(byte: number): void {
    this.use(1)
    if (byte === COMMA) this.before = '{"":0,'
    else if (this.seen) {
      this.before = '{}'
      this.over = true
    } else this.missing()
  }

  private missing(): FrameStep {
    return this.refuse('invalid_input', this.pointer, 'must be an array, and is missing')
  }

  private tooLarge(): FrameStep {
    const { start, bytes } = this.window
    const text = bytes.toString('utf8', start, start + this.maxElementBytes)
    this.fault = malformed(this.where(''), this.before, text, false)
    return this.fault ? 'more' : this.refuse('body_too_large', '', `begins a member of more than ${this.maxElementBytes} bytes`)
  }

  /** Bytes that are known to be UTF-8. */
  private use(bytes: number): void {
    const { window } = this
    const text = window.bytes.toString('utf8', window.start, window.start + bytes)
    this.place.advance(text, 0, text.length)
    window.start += bytes
  }

  private peek(): string {
    return this.window.bytes.toString('latin1', this.window.start, this.window.start + 1)
  }

  private failTo(to: number): FrameStep {
    const text = this.window.text(this.window.start, to)
    return text === undefined ? this.refuse('malformed_json', '', 'begins a member that is not UTF-8') : this.fail(text)
  }

  private fail(rest: string): FrameStep {
    this.fault = malformed(this.where(''), this.before, rest, true)
    return 'more'
  }

  private refuse(code: ErrorCode, pointer: string, why: string): FrameStep {
    this.fault = faultAt(code, this.where(pointer), 'The body can not be read', why)
    return 'more'
  }

  private where(pointer: string): FaultPlace {
    return { item: this.count, pointer, place: this.place }
  }
}
