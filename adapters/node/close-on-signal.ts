import { hasErrorListener } from '../../src/http/boundary.js'
import type { Tasks } from '../../src/index.js'
import {
  duration, func, MAX_TIMER_MS, readOptions, value, type OptionTable,
} from '../../src/runtime/options.js'
import { setTimeout, settles } from '../../src/runtime/timers.js'
import { warn } from '../../src/runtime/warning.js'
import { serverCloser } from './close-server.js'

/** Options of `closeOnSignal`. All parts are optional. */
export interface CloseOnSignalOptions {
  /**
   * The server of node:http, node:https or node:http2, such as what `app.listen` of Express
   * returns; or an application whose `close` returns a promise, such as that of Fastify.
   */
  readonly server?: object
  /** The object that `createTasks` returned. */
  readonly tasks?: Pick<Tasks, 'close'>
  /**
   * Not used, because the tasks close the engine.
   *
   * Allowed, because `...storage` may contain an engine.
   */
  readonly engine?: object
  /** The store of the engine. */
  readonly store?: object
  /** The blobs of the engine. */
  readonly blobs?: object
  /** Pool of pg. */
  readonly pool?: object
  /** Client of ioredis. */
  readonly client?: object
  /** Closes what else your application has opened, after all other parts. */
  readonly afterwards?: () => unknown
  /** Time for active runs to finish (`drainMs` of `tasks.close`), in milliseconds. Default 10,000. */
  readonly drainMs?: number
  /**
   * Time in which all is closed, in milliseconds, longer than `drainMs`. Default: `drainMs` and 10
   * s.
   *
   * Open connections are cut when half of the time after `drainMs` has passed.
   */
  readonly timeoutMs?: number
  /** Signals that start it. Default: SIGTERM and SIGINT. */
  readonly signals?: readonly NodeJS.Signals[]
  /** Receives errors of parts that did not close. Default: a process warning. */
  readonly onError?: (error: unknown) => void
}

const part = value<never>('an object that can be closed', (given) => typeof given === 'object')

const OPTIONS = {
  server: part, tasks: part, engine: part, store: part, blobs: part, pool: part, client: part,
  afterwards: func(), onError: func(),
  drainMs: duration({ max: Infinity, infinity: true, default: 10_000 }),
  timeoutMs: duration({ min: 1, max: Infinity, infinity: true }),
  signals: value<never>('an array of signals', Array.isArray),
} satisfies OptionTable<CloseOnSignalOptions>

/**
 * Time within which a second signal counts as the first, in milliseconds: npm and a terminal both
 * send it.
 */
const SAME_SIGNAL_MS = 1000
/** Time after which a process that something else keeps alive is ended. */
const EXIT_MS = 500

const CLOSING = Symbol.for('longhaul.closing')

/**
 * `calls`: number of calls whose parts are being closed. `ends`: true once a signal has arrived.
 */
interface Closing { calls: number, ends: boolean }

/** There is one state for all copies of this package in a process. */
const closing = ((globalThis as { [CLOSING]?: Closing })[CLOSING] ??= { calls: 0, ends: false })

/**
 * Closes a process on SIGTERM and SIGINT in the order that loses nothing: the server accepts no new
 * connections and each response says `Connection: close`; the tasks drain, which ends long polls
 * and event streams; open responses are sent; then the store, the blobs, the pool and the client
 * are closed.
 *
 * The process ends with code 0, or with code 1 if a part did not close within `timeoutMs`. A second
 * signal, at least a second later, ends it at once with code 1. If you call this function several
 * times, such as for two servers, the process ends when the parts of all calls are closed.
 * @example
 * const storage = postgres({ pool })
 * closeOnSignal({ server, tasks, ...storage, pool })
 * @returns a function that closes all parts without a signal. It ends no process and never rejects.
 * Later calls return the same promise.
 * @throws {TypeError} An option is not valid or unknown, or `timeoutMs` is not longer than
 * `drainMs`.
 */
export function closeOnSignal(options: CloseOnSignalOptions): () => Promise<void> {
  const {
    drainMs, timeoutMs = drainMs + 10_000, signals = ['SIGTERM', 'SIGINT'],
  } = readOptions('closeOnSignal', options, OPTIONS)
  if (timeoutMs <= drainMs && drainMs < Infinity) {
    throw new TypeError('closeOnSignal: timeoutMs must be longer than drainMs')
  }
  const closeParts = partsCloser(options, drainMs, timeoutMs)
  const closeAll = (): Promise<boolean> => {
    closing.calls++
    return closeParts().finally(() => {
      closing.calls--
      const isLast = closing.ends && closing.calls === 0
      if (isLast) setTimeout(() => { process.exit() }, EXIT_MS).unref()
    })
  }
  let closed: Promise<boolean> | undefined
  let begun = 0
  const onSignal = (): void => {
    if (closed !== undefined) {
      if (begun > 0 && performance.now() - begun > SAME_SIGNAL_MS) process.exit(1)
      return
    }
    begun = performance.now()
    closing.ends = true
    closed = closeAll()
    void closed.then((isWhole) => {
      process.exitCode = isWhole ? process.exitCode ?? 0 : 1
    })
  }
  for (const signal of signals) process.on(signal, onSignal)
  return async () => {
    closed ??= closeAll()
    await closed
    for (const signal of signals) process.off(signal, onSignal)
  }
}

/** Returns a function that closes all parts, and resolves to `false` if one did not close. */
function partsCloser(
  { server, tasks, store, blobs, pool, client, afterwards, onError = report }: CloseOnSignalOptions,
  drainMs: number, timeoutMs: number,
): () => Promise<boolean> {
  const cutMs = drainMs === Infinity ? Infinity : drainMs + (timeoutMs - drainMs) / 2
  const closeServer = server && serverCloser(server)
  return async () => {
    const began = performance.now()
    let isWhole = true
    const close = async (name: string, work: () => unknown): Promise<void> => {
      try {
        const left = Math.max(1, timeoutMs - (performance.now() - began))
        const closing = Promise.resolve().then(work)
        if (left < MAX_TIMER_MS && !await settles(closing, left)) throw lateError(name, timeoutMs)
        await closing
      } catch (error) {
        isWhole = false
        onError(error)
      }
    }
    const served = closeServer && close('server', () => closeServer(cutMs))
    if (tasks !== undefined) await close('tasks', () => tasks.close({ drainMs }))
    await served
    for (const [name, each] of Object.entries({ store, blobs, pool, client })) {
      if (each !== undefined) await close(name, () => end(each))
    }
    if (afterwards !== undefined) await close('afterwards', afterwards)
    return isWhole
  }
}

function lateError(name: string, timeoutMs: number): Error {
  return new Error(`closeOnSignal: ${name} has not closed within the ${timeoutMs} ms of timeoutMs`)
}

interface Closable {
  end?(): unknown
  quit?(): unknown
  close?(): unknown
}

/** Closes a pool of pg (`end`), a client of ioredis (`quit`), or a store (`close`). */
function end(part: Closable): unknown {
  if (typeof part.end === 'function') return part.end()
  return typeof part.quit === 'function' ? part.quit() : part.close?.()
}

function report(error: unknown): void {
  if (!hasErrorListener()) warn(error)
}
