import type { ClientRequest, IncomingMessage } from 'node:http'
import type { CallbackReply } from '../sender.js'
import { BusyAddress, ForbiddenAddress } from './lookup.js'

interface Limits {
  readonly body: string
  readonly signal: AbortSignal
  readonly timeoutMs: number
  readonly maxAnswerBytes: number
}

/** Maximum time to wait for the rest of a response after its status. */
const LINGER_MS = 2000
/** Maximum number of interim responses (1xx) from one receiver. */
const MAX_INTERIM = 10

/**
 * Makes one exchange: sends the body, waits for the status, reads a little of the body, and
 * destroys the socket. Always settles. Rejects only with the reason of the signal.
 */
export function exchange(
  outgoing: ClientRequest,
  { body, signal, timeoutMs, maxAnswerBytes }: Limits,
): Promise<CallbackReply> {
  return new Promise((resolve, reject) => {
    let reply: CallbackReply | undefined
    let settled = false
    let linger: ReturnType<typeof setTimeout> | undefined
    const settle = (outcome: CallbackReply): void => {
      if (settled) return
      settled = true
      end()
      resolve(reply ?? outcome)
    }
    const onAbort = (): void => {
      settled = true
      end()
      reject(signal.reason instanceof Error ? signal.reason : new Error('The callback was stopped'))
    }
    const deadline = setTimeout(() => {
      settle({ fault: 'timeout' })
    }, timeoutMs)
    const end = (): void => {
      clearTimeout(deadline)
      clearTimeout(linger)
      signal.removeEventListener('abort', onAbort)
      outgoing.destroy()
    }
    signal.addEventListener('abort', onAbort, { once: true })

    let interim = 0
    outgoing.on('information', () => {
      if (++interim > MAX_INTERIM) settle({ fault: 'unreachable' })
    })
    // Never removed, because an unhandled late error would end the process.
    outgoing.on('error', (error) => {
      settle(replyOf(error))
    })
    outgoing.on('close', () => {
      settle({ fault: 'unreachable' })
    })
    outgoing.on('response', (answer) => {
      const { statusCode = 0, headers } = answer
      reply = { status: statusCode, retryAfter: headers['retry-after'] }
      const done = (): void => {
        settle({ fault: 'unreachable' })
      }
      linger = setTimeout(done, LINGER_MS)
      discard(answer, maxAnswerBytes, done)
    })
    outgoing.end(body)
  })
}

function replyOf(error: Error): CallbackReply {
  if (error instanceof BusyAddress) return { fault: 'busy' }
  return { fault: error instanceof ForbiddenAddress ? 'forbidden' : 'unreachable' }
}

/**
 * Discards up to `max` bytes of the body. Calls `done` at the end, at the limit, or if the response
 * breaks off.
 */
function discard(answer: IncomingMessage, max: number, done: () => void): void {
  let seen = 0
  answer.on('data', (chunk: Buffer) => {
    seen += chunk.length
    if (seen > max) done()
  })
  answer.on('end', done)
  answer.on('error', done)
  answer.on('close', done)
}
