import type { Socket } from 'node:net'
import { countedAs, countedAsOwner } from '../../src/http/requester.js'
import { heapShare } from '../../src/runtime/shared-limit.js'
import type { NodeRequest } from './request.js'

/** Maximum bytes of responses that the clients of one caller have not read. */
const LIMIT = heapShare(8, 128)

interface Caller {
  bytes: number
  /** Bytes by connection. The one that has read nothing for the longest time is first. */
  readonly unread: Map<Socket, number>
}

const callers = new Map<string, Caller>()

/**
 * Counts bytes that a response waits to send. Above the limit of their caller, closes the
 * connections of this caller whose clients have read nothing for the longest time.
 * @returns a function that ends the count. Call it once
 */
export function countUnread(call: NodeRequest<unknown>, bytes: number): () => void {
  const { socket } = call.req
  const name = call.caller === undefined ? countedAs(call) : countedAsOwner(call.caller)
  const caller = callers.get(name) ?? { bytes: 0, unread: new Map<Socket, number>() }
  callers.set(name, caller)
  const { unread } = caller
  caller.bytes += bytes
  unread.set(socket, (unread.get(socket) ?? 0) + bytes)
  for (const [first, waiting] of unread) {
    // The only connection of a caller may exceed the limit.
    if (caller.bytes <= LIMIT || unread.size === 1) break
    caller.bytes -= waiting
    unread.delete(first)
    first.destroy()
  }
  return () => {
    const waiting = unread.get(socket)
    if (waiting === undefined) return
    caller.bytes -= bytes
    // Last again, because its client reads.
    unread.delete(socket)
    if (waiting > bytes) unread.set(socket, waiting - bytes)
    else if (unread.size === 0 && callers.get(name) === caller) callers.delete(name)
  }
}
