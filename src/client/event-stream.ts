import { ClientError } from './errors.js'

/** One server-sent event. */
export interface ServerEvent {
  readonly id: string
  readonly data: string
}

const CR = 13
const LF = 10

/** Parses server-sent events (the event stream format of the WHATWG) from text in pieces. */
export class EventReader {
  private line = ''
  private afterCr = false
  private data: string | undefined
  private id = ''
  private size = 0

  /** @param maxUnits - maximum length of one event, in UTF-16 units */
  constructor(private readonly maxUnits: number) {}

  /** Returns the events that end in this piece. */
  read(text: string): ServerEvent[] {
    const events: ServerEvent[] = []
    this.size += text.length
    let start = 0
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at)
      if (unit !== CR && unit !== LF) continue
      if (unit === LF && at === start && this.line === '' && this.afterCr) {
        // The second half of a CRLF.
      } else {
        this.endLine(this.line + text.slice(start, at), events)
        this.line = ''
      }
      this.afterCr = unit === CR
      start = at + 1
    }
    if (start < text.length) {
      this.line += text.slice(start)
      this.afterCr = false
    }
    if (this.size > this.maxUnits) {
      this.size = this.line.length + (this.data?.length ?? 0)
      if (this.size > this.maxUnits) {
        const message = `An event is longer than ${this.maxUnits} units.`
        throw new ClientError('answer_too_large', message)
      }
    }
    return events
  }

  private endLine(line: string, events: ServerEvent[]): void {
    if (line === '') {
      if (this.data !== undefined) events.push({ id: this.id, data: this.data })
      this.data = undefined
      return
    }
    const colon = line.indexOf(':')
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1)
    if (field === 'data') this.data = this.data === undefined ? value : `${this.data}\n${value}`
    else if (field === 'id' && !value.includes('\0')) this.id = value
  }
}
