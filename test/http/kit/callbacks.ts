// Receivers of callbacks over real sockets, and tasks that call them.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { TestContext } from 'node:test'
import { callbacks, httpSender, type CallbackOptions } from '../../../src/callbacks/index.js'
import type { HttpSenderOptions } from '../../../src/callbacks/http-sender.js'
import { memory } from '../../../adapters/memory/index.js'
import { createTasks, type Tasks } from '../../../src/tasks/tasks.js'
import { defineTask } from '../../../src/tasks/definition/define.js'
import { eventually } from '../../kit/wait.js'
import { listen } from '../../kit/listen.js'

export const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

/** One request as a receiver saw it. */
export interface Seen {
  readonly method: string
  readonly path: string
  readonly headers: Record<string, string>
  readonly body: string
  readonly at: number
}

export interface Receiver {
  readonly url: string
  readonly port: number
  readonly seen: Seen[]
}

/** Listens on loopback; `answer` is called once the body has been read. */
export async function receiver(
  t: TestContext,
  answer: (res: ServerResponse, nth: number, req: IncomingMessage) => void = (res) => {
    res.end('ok')
  },
  host = '127.0.0.1',
): Promise<Receiver> {
  const seen: Seen[] = []
  const server = createServer((req, res) => {
    let body = ''
    req
      .setEncoding('utf8')
      .on('data', (text: string) => {
        body += text
      })
      .on('end', () => {
        seen.push({
          method: req.method ?? '',
          path: req.url ?? '',
          headers: req.headers as Record<string, string>,
          body,
          at: Date.now(),
        })
        answer(res, seen.length, req)
      })
      .on('error', () => undefined)
    res.on('error', () => undefined)
  })
  const { port, url, close } = await listen(server, host)
  t.after(close)
  return { url: `${url}/hook?a=1`, port, seen }
}

export interface Site {
  readonly tasks: Tasks
  /** Submits work that gives back its input, or throws it, and resolves to its id. */
  readonly submit: (callbackUrl: string, input?: unknown, owner?: string) => Promise<string>
  /** The callback as the status resource shows it, once it is neither waiting nor pending. */
  readonly settled: (
    id: string,
    ms?: number,
  ) => Promise<{ state: string; attempts: number; lastStatus?: number; fault?: string }>
  readonly heard: unknown[]
}

/** Tasks in memory whose callbacks may go to loopback and are tried again fast. */
export function site(
  t: TestContext,
  options: Partial<CallbackOptions> & HttpSenderOptions & { concurrency?: number } = {},
): Site {
  const {
    allow = ['127.0.0.1'],
    timeoutMs = 1000,
    maxResponseBytes = 16_384,
    resolve,
    concurrency = 4,
    ...rest
  } = options
  // Timers of the library let a process end.
  const hold = setInterval(() => undefined, 60_000)
  const { engine, store } = memory()
  const heard: unknown[] = []
  const echo = defineTask({
    name: 'echo',
    run: (input: { fail?: boolean; ms?: number } | undefined, { signal }) => {
      if (input?.fail) throw new Error('no')
      if (input?.ms === undefined) return input ?? { message: 'ünïcode "quoted"' }
      return new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          reject(new Error('stopped'))
        })
      })
    },
  })
  const tasks = createTasks({
    engine,
    store,
    definitions: [echo],
    concurrency,
    onError: (error) => {
      heard.push(error)
    },
    callbacks: callbacks({
      sender: httpSender({ allow, timeoutMs, maxResponseBytes, ...(resolve ? { resolve } : {}) }),
      secrets: () => [SECRET],
      backoff: { type: 'exponential', delayMs: 5, jitter: 0 },
      attempts: 3,
      ...rest,
    }),
  })
  t.after(async () => {
    await tasks.close({ drainMs: 0 })
    await store.close()
    clearInterval(hold)
  })
  return {
    tasks,
    heard,
    submit: async (callbackUrl, input, owner) =>
      (await tasks.submit(echo, input as object, { callbackUrl, ...(owner !== undefined && { owner }) })).taskId,
    settled: async (id, ms = 8000) => {
      await eventually(async () => ['delivered', 'failed'].includes((await tasks.get(id))?.callback?.state ?? ''), ms)
      const callback = (await tasks.get(id))?.callback
      if (!callback) throw new Error('no callback')
      return callback
    },
  }
}
