import { ClientError, isClientError } from './errors.js'
import type { Settings } from './options.js'
import { backOff, canRetry, jitter, pause } from './retry.js'
import { chunksOf, parseRetryAfter, readAnswer, send, type ClientRequest, type Received } from './send.js'
import { isFinal, notStatus, readStatus, type TaskStatus } from './status.js'

/** Length of a long poll in seconds. Shorter than the usual idle timeout of a proxy. */
const WAIT_SECONDS = 25
const MAX_EVENT_UNITS = 64 * 1024 * 1024
/** Event streams without an event before the client polls instead. A proxy may buffer them. */
const MAX_EMPTY_STREAMS = 2
const NO_EVENTS = new Set([400, 406, 501, 503])

export async function* follow<R>(
  settings: Settings, url: URL, signal?: AbortSignal,
): AsyncGenerator<TaskStatus<R>, void, undefined> {
  const watch = new Watch<R>(settings, url, signal)
  for (let failures = 0; ;) {
    try {
      for await (const status of watch.request()) {
        failures = 0
        if (status) yield status
        if (status && isFinal(status)) return
      }
      await pause(watch.delayMs, signal)
    } catch (error) {
      await backOff(settings, { error, failures: ++failures }, () => watch.mayRetry(error), signal)
    }
  }
}

class Watch<R> {
  delayMs = 0
  private events: boolean
  private etag: string | undefined
  private lastEventId = ''
  private emptyStreams = 0
  private polls = 0
  private latest = ''

  constructor(
    private readonly settings: Settings, private readonly url: URL,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.events = settings.events
  }

  /** Sends one request. Yields the changes in its response, and `undefined` for no change. */
  async* request(): AsyncGenerator<TaskStatus<R> | undefined, void, undefined> {
    const began = performance.now()
    const received = await send(this.settings, this.call())
    const type = received.response.headers.get('content-type')
    if (type?.startsWith('text/event-stream')) yield* this.readEvents(received)
    else yield await this.readStatus(received, began)
  }

  /** Decides after a failure. A server without events is polled. */
  mayRetry(error: unknown): boolean {
    const hasNoEvents = this.events && isClientError(error) && NO_EVENTS.has(error.status)
    if (hasNoEvents) this.events = false
    return hasNoEvents || canRetry(error, 'read')
  }

  private call(): ClientRequest {
    const { events, etag, lastEventId, url, signal } = this
    return {
      url, signal,
      headers: {
        'accept': events ? 'text/event-stream, application/json;q=0.9' : 'application/json',
        // The first response must come at once. Without a tag, a server would wait for the end.
        'prefer': this.latest === '' ? undefined : `wait=${WAIT_SECONDS}`,
        'if-none-match': events ? undefined : etag,
        'last-event-id': events && lastEventId !== '' ? lastEventId : undefined,
      },
    }
  }

  private async* readEvents(
    received: Received,
  ): AsyncGenerator<TaskStatus<R> | undefined, void, undefined> {
    const reader = new EventReader(MAX_EVENT_UNITS)
    const decoder = new TextDecoder()
    this.emptyStreams++
    this.delayMs = jitter(this.settings.pollBaseMs)
    if (this.emptyStreams >= MAX_EMPTY_STREAMS) this.events = false
    for await (const chunk of chunksOf(received)) {
      for (const event of reader.read(decoder.decode(chunk, { stream: true }))) {
        const status = this.changed(parse(event.data), event.data)
        this.events = this.settings.events
        this.emptyStreams = 0
        this.lastEventId = event.id
        yield status
      }
    }
  }

  private async readStatus(received: Received, began: number): Promise<TaskStatus<R> | undefined> {
    // The request accepted events, so this server has none.
    this.events = false
    const { status, headers, json } = await readAnswer(received)
    const waited = /(?:^|[,\s])wait\b/.test(headers.get('preference-applied') ?? '')
    const retryAfter = parseRetryAfter(headers.get('retry-after'))
    this.delayMs = this.delayAfter(waited, retryAfter, performance.now() - began)
    if (status === 304 || status === 204) return undefined
    this.etag = headers.get('etag') ?? undefined
    return this.changed(json, JSON.stringify(json))
  }

  private changed(body: unknown, text: string): TaskStatus<R> | undefined {
    const status = readStatus<R>(body)
    if (!status) throw notStatus(200, body)
    if (text === this.latest) return undefined
    this.latest = text
    return status
  }

  /**
   * After a long poll, the delay is short. Otherwise the server sets the delay, or the delay grows.
   */
  private delayAfter(waited: boolean, retryAfter: number | undefined, tookMs: number): number {
    const { pollBaseMs, pollMaxMs, maxMs } = this.settings
    if (waited) return Math.max(0, pollBaseMs - tookMs)
    if (retryAfter !== undefined) {
      return Math.min(retryAfter * 1000, maxMs) * (1 + Math.random() / 10)
    }
    return jitter(Math.min(pollMaxMs, pollBaseMs * 1.5 ** this.polls++))
  }
}

function parse(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch {
    return undefined
  }
}

export interface ServerEvent {
  readonly id: string
  readonly data: string
}

export class EventReader {
  private line = ''
  private afterCr = false
  private data: string | undefined
  private id = ''

  constructor(private readonly maxUnits: number) {}

  read(text: string): ServerEvent[] {
    if (text === '') return []
    const events: ServerEvent[] = []
    // The second half of a CRLF.
    const rest = this.afterCr && text.startsWith('\n') ? text.slice(1) : text
    this.afterCr = rest.endsWith('\r')
    const [first = '', ...others] = rest.split(/\r\n|\r|\n/)
    this.line += first
    for (const next of others) {
      this.endLine(events)
      this.line = next
    }
    if (this.line.length + (this.data?.length ?? 0) > this.maxUnits) {
      const message = `An event is longer than ${this.maxUnits} units.`
      throw new ClientError('answer_too_large', message)
    }
    return events
  }

  private endLine(events: ServerEvent[]): void {
    const { line } = this
    if (line === '') {
      if (this.data !== undefined) events.push({ id: this.id, data: this.data })
      this.data = undefined
      return
    }
    const [, field, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) as RegExpExecArray
    if (field === 'data') this.data = this.data === undefined ? value : `${this.data}\n${value}`
    else if (field === 'id' && !value.includes('\0')) this.id = value
  }
}
