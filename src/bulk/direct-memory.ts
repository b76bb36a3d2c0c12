import { HEAP_PER_BYTE, PARSED, memoryRefused } from '../http/body/counted-body.js'
import { countedAs } from '../http/requester.js'
import type { HttpRequest } from '../http/exchange.js'
import { SharedLimit } from '../runtime/shared-limit.js'

/** Smaller parts of JSON are not counted. In bytes. */
const COUNTED_BYTES = 16_384
/** One place, which callers take in turns. */
const TURN = new SharedLimit(1)

/**
 * Runs work on parsed JSON of `bytes` bytes. Small JSON is never refused. Larger JSON does not wait
 * for memory, because it takes memory already.
 *
 * @throws {HttpError} Other requests have parsed too much: 429 `too_many_requests` if they are of
 * the same caller, else 503 `overloaded`
 */
export async function withParsed<R>(
  request: HttpRequest<unknown>, bytes: number, work: () => Promise<R>,
): Promise<R> {
  if (bytes <= COUNTED_BYTES) return work()
  const heap = PARSED.open(countedAs(request))
  const code = heap.tryAcquire(bytes * HEAP_PER_BYTE)
  if (code !== undefined) throw memoryRefused(code, 'large bodies')
  try {
    return await work()
  } finally {
    heap.release()
  }
}

/**
 * Runs work while no other work of this function runs. For work that needs much memory and waits
 * for no client and no database. Resolves to `undefined`, without the work, if the request's client
 * disconnects before.
 */
export async function inTurn<R>(
  request: HttpRequest<unknown>, work: () => Promise<R>,
): Promise<R | undefined> {
  const turn = TURN.open(countedAs(request))
  if (!await turn.acquire(1, request)) return undefined
  try {
    return await work()
  } finally {
    turn.release()
  }
}
