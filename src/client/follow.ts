import { chunksOf } from './chunks.js'
import { ClientError, isClientError } from './errors.js'
import { EventReader } from './event-stream.js'
import type { Settings } from './options.js'
import { jitter, parseRetryAfter, pause, retryDelay } from './pause.js'
import type { Scope } from './scope.js'
import { isEnded, readStatus, type TaskStatus } from './status.js'
import { mayPass, readAnswer, send, type Call } from './transport.js'

/**
 * What a long poll asks for, in seconds: less than the proxies on the way give a silent request.
 */
const WAIT_SECONDS = 25
const MAX_EVENT_UNITS = 64 * 1024 * 1024
/**
 * Streams that brought nothing, as those through a proxy that buffers, until the task is polled.
 */
const MAX_BARREN = 2
/**
 * How a server says that it gives no events, or not to so many. The last is no answer to a poll.
 */
const NO_EVENTS = new Set([400, 406, 501, 503])

/**
 * The status of a task, at once and after every change, until it has ended. One form of request
 * gets the best that a server has: events, else a long poll, else its status now, after which it is
 * left alone for as long as it asks.
 */
export async function* follow<R>(settings: Settings, url: URL, signal?: AbortSignal): AsyncGenerator<TaskStatus<R>, void, undefined> {
  const watch = new Watch<R>(settings, url, signal)
  for (;;) {
    for await (const status of watch.look()) {
      yield status
      if (isEnded(status)) return
    }
    await pause(watch.restMs, signal)
  }
}

class Watch<R> {
  /** How long to leave the server alone, in milliseconds. */
  restMs = 0
  private events: boolean
  private etag: string | undefined
  private lastEventId = ''
  private barren = 0
  private failures = 0
  private polls = 0
  private seen = ''

  constructor(private readonly settings: Settings, private readonly url: URL, private readonly signal: AbortSignal | undefined) {
    this.events = settings.events
  }

  /** Asks once; gives what is new. */
  async* look(): AsyncGenerator<TaskStatus<R>, void, undefined> {
    const began = performance.now()
    try {
      const { response, scope } = await send(this.settings, this.call(), (response, scope) => ({ response, scope }))
      const streaming = response.headers.get('content-type')?.startsWith('text/event-stream') === true
      if (streaming) yield* this.listen(response, scope)
      else yield* this.read(response, scope, began)
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
        // What it is now comes first: a server that is told to wait without a tag waits for the
        // end.
        'prefer': this.seen === '' ? undefined : `wait=${WAIT_SECONDS}`,
        'if-none-match': events ? undefined : etag,
        'last-event-id': events && lastEventId !== '' ? lastEventId : undefined,
      },
    }
  }

  private async* listen(response: Response, scope: Scope): AsyncGenerator<TaskStatus<R>, void, undefined> {
    const reader = new EventReader(MAX_EVENT_UNITS)
    const decoder = new TextDecoder()
    this.barren++
    this.restMs = jitter(this.settings.pollBaseMs)
    if (this.barren >= MAX_BARREN) this.events = false
    for await (const chunk of chunksOf(response.body, scope)) {
      for (const event of reader.read(decoder.decode(chunk, { stream: true }))) {
        const status = this.take(parseEvent(event.data), event.data)
        this.events = this.settings.events
        this.barren = 0
        this.lastEventId = event.id
        if (status) yield status
      }
    }
  }

  private async* read(response: Response, scope: Scope, began: number): AsyncGenerator<TaskStatus<R>, void, undefined> {
    // Who was asked for events and gives something else has none.
    this.events = false
    const { status, headers, json } = await readAnswer(response, scope, this.url)
    this.failures = 0
    const waited = /(?:^|[,\s])wait\b/.test(headers.get('preference-applied') ?? '')
    this.restMs = this.restAfter(waited, parseRetryAfter(headers.get('retry-after')), performance.now() - began)
    if (status === 304 || status === 204) return
    this.etag = headers.get('etag') ?? undefined
    const now = this.take(json, JSON.stringify(json))
    if (now) yield now
  }

  private take(body: unknown, text: string): TaskStatus<R> | undefined {
    const status = readStatus<R>(body)
    if (!status) throw new ClientError('bad_answer', 'The answer is not the status of a task.', { status: 200, body })
    this.failures = 0
    if (text === this.seen) return undefined
    this.seen = text
    return status
  }

  /** A long poll has done its waiting; others wait as the server says, or longer and longer. */
  private restAfter(waited: boolean, retryAfter: number | undefined, tookMs: number): number {
    const { pollBaseMs, pollMaxMs, maxMs } = this.settings
    if (waited) return Math.max(0, pollBaseMs - tookMs)
    if (retryAfter !== undefined) return Math.min(retryAfter * 1000, maxMs) * (1 + Math.random() / 10)
    return jitter(Math.min(pollMaxMs, pollBaseMs * 1.5 ** this.polls++))
  }

  /** Counts a failure; throws it when it is one too many, or will last. */
  private fail(error: unknown): void {
    this.failures++
    const quits = this.events && isClientError(error) && NO_EVENTS.has(error.status)
    if (quits) this.events = false
    if (this.failures >= this.settings.attempts || !(quits || mayPass(error, 'read'))) throw error
    const ms = isClientError(error) ? retryDelay(this.settings, this.failures, error) : undefined
    if (ms === undefined) throw error
    this.restMs = ms
  }
}

function parseEvent(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch {
    return undefined
  }
}
