import { chunksOf } from './chunks.js'
import { isClientError } from './errors.js'
import { EventReader } from './event-stream.js'
import type { Settings } from './options.js'
import { jitter, parseRetryAfter, pause, retryDelay } from './pause.js'
import type { Scope } from './scope.js'
import { isFinal, notStatus, readStatus, type TaskStatus } from './status.js'
import { canRetry, readAnswer, send, type Call } from './transport.js'

/** Length of a long poll in seconds. Shorter than the usual idle timeout of a proxy. */
const WAIT_SECONDS = 25
const MAX_EVENT_UNITS = 64 * 1024 * 1024
/** Event streams without an event before the client polls instead. A proxy may buffer them. */
const MAX_EMPTY_STREAMS = 2
/** Statuses of a server that sends no events, or no further stream. */
const NO_EVENTS = new Set([400, 406, 501, 503])

/**
 * Yields the current status of a task and each change, until the task is final.
 *
 * One form of request serves all servers. The answer is an event stream, a long poll, or the
 * current status. After the latter two the client waits as long as `Retry-After` says.
 */
export async function* follow<R>(
  settings: Settings, url: URL, signal?: AbortSignal,
): AsyncGenerator<TaskStatus<R>, void, undefined> {
  const watch = new Watch<R>(settings, url, signal)
  for (;;) {
    for await (const status of watch.request()) {
      yield status
      if (isFinal(status)) return
    }
    await pause(watch.delayMs, signal)
  }
}

class Watch<R> {
  /** Delay before the next request, in milliseconds. */
  delayMs = 0
  private events: boolean
  private etag: string | undefined
  private lastEventId = ''
  private emptyStreams = 0
  private failures = 0
  private polls = 0
  /** Text of the latest status. Empty before the first. */
  private lastText = ''

  constructor(
    private readonly settings: Settings,
    private readonly url: URL,
    private readonly signal: AbortSignal | undefined,
  ) {
    this.events = settings.events
  }

  /** Sends one request and yields the changes in its answer. */
  async* request(): AsyncGenerator<TaskStatus<R>, void, undefined> {
    const began = performance.now()
    try {
      const { response, scope, url } = await send(
        this.settings, this.call(), (response, scope, url) => ({ response, scope, url }),
      )
      const type = response.headers.get('content-type')
      if (type?.startsWith('text/event-stream')) yield* this.readEvents(response, scope)
      else yield* this.readStatus(response, scope, url, began)
    } catch (error) {
      this.fail(error)
    }
  }

  private call(): Call {
    const { events, etag, lastEventId, url, signal } = this
    return {
      url, signal,
      headers: {
        'accept': events ? 'text/event-stream, application/json;q=0.9' : 'application/json',
        // The first answer must come at once. Without a tag, a server would wait for the end.
        'prefer': this.lastText === '' ? undefined : `wait=${WAIT_SECONDS}`,
        'if-none-match': events ? undefined : etag,
        'last-event-id': events && lastEventId !== '' ? lastEventId : undefined,
      },
    }
  }

  private async* readEvents(
    response: Response, scope: Scope,
  ): AsyncGenerator<TaskStatus<R>, void, undefined> {
    const reader = new EventReader(MAX_EVENT_UNITS)
    const decoder = new TextDecoder()
    this.emptyStreams++
    this.delayMs = jitter(this.settings.pollBaseMs)
    if (this.emptyStreams >= MAX_EMPTY_STREAMS) this.events = false
    for await (const chunk of chunksOf(response.body, scope)) {
      for (const event of reader.read(decoder.decode(chunk, { stream: true }))) {
        const status = this.changed(parseEvent(event.data), event.data)
        this.events = this.settings.events
        this.emptyStreams = 0
        this.lastEventId = event.id
        if (status) yield status
      }
    }
  }

  private async* readStatus(
    response: Response, scope: Scope, url: string, began: number,
  ): AsyncGenerator<TaskStatus<R>, void, undefined> {
    // The request accepted events, so this server has none.
    this.events = false
    const { status, headers, json } = await readAnswer(response, scope, url)
    this.failures = 0
    const waited = /(?:^|[,\s])wait\b/.test(headers.get('preference-applied') ?? '')
    const retryAfter = parseRetryAfter(headers.get('retry-after'))
    this.delayMs = this.delayAfter(waited, retryAfter, performance.now() - began)
    if (status === 304 || status === 204) return
    this.etag = headers.get('etag') ?? undefined
    const now = this.changed(json, JSON.stringify(json))
    if (now) yield now
  }

  /** Returns the status in `body`, or `undefined` if it is the same as the one before. */
  private changed(body: unknown, text: string): TaskStatus<R> | undefined {
    const status = readStatus<R>(body)
    if (!status) throw notStatus(200, body)
    this.failures = 0
    if (text === this.lastText) return undefined
    this.lastText = text
    return status
  }

  /** After a long poll, the delay is short. Else the server sets it, or it grows. */
  private delayAfter(waited: boolean, retryAfter: number | undefined, tookMs: number): number {
    const { pollBaseMs, pollMaxMs, maxMs } = this.settings
    if (waited) return Math.max(0, pollBaseMs - tookMs)
    if (retryAfter !== undefined) {
      return Math.min(retryAfter * 1000, maxMs) * (1 + Math.random() / 10)
    }
    return jitter(Math.min(pollMaxMs, pollBaseMs * 1.5 ** this.polls++))
  }

  /** Counts a failure. Throws it if it is permanent or if there were too many in a row. */
  private fail(error: unknown): void {
    this.failures++
    const noEvents = this.events && isClientError(error) && NO_EVENTS.has(error.status)
    if (noEvents) this.events = false
    const { attempts } = this.settings
    if (this.failures >= attempts || !(noEvents || canRetry(error, 'read'))) throw error
    const ms = isClientError(error) ? retryDelay(this.settings, this.failures, error) : undefined
    if (ms === undefined) throw error
    this.delayMs = ms
  }
}

function parseEvent(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch {
    return undefined
  }
}
