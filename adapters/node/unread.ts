import type { Socket } from 'node:net'
import { countedAs, countedAsOwner } from '../../src/http/requester.js'
import { heapShare } from '../../src/runtime/shared-limit.js'
import type { NodeRequest } from './request.js'

/** Maximum bytes of responses that the clients of one caller have not read. */
const LIMIT = heapShare(8, 128)

/** Content that a response waits to send. */
interface Content {
  readonly bytes: number
  /** The buffer, which several responses may share: it takes its memory once. */
  readonly buffer: object | undefined
}

class Caller {
  bytes = 0
  /** Contents by connection. The one that has read nothing for the longest time is first. */
  readonly unread = new Map<Socket, Set<Content>>()
  private readonly holders = new Map<object, number>()

  add(socket: Socket, content: Content): void {
    const contents = this.unread.get(socket)
    if (contents === undefined) this.unread.set(socket, new Set([content]))
    else contents.add(content)
    this.hold(content, 1)
  }

  /** Removes what a client has read. Its connection is the last one then. */
  remove(socket: Socket, content: Content): void {
    const contents = this.unread.get(socket)
    if (contents?.delete(content) !== true) return
    this.hold(content, -1)
    this.unread.delete(socket)
    if (contents.size > 0) this.unread.set(socket, contents)
  }

  close(socket: Socket): void {
    const contents = this.unread.get(socket) ?? []
    this.unread.delete(socket)
    for (const content of contents) this.hold(content, -1)
    socket.destroy()
  }

  private hold({ bytes, buffer }: Content, by: 1 | -1): void {
    const before = buffer === undefined ? 0 : this.holders.get(buffer) ?? 0
    if (buffer !== undefined) {
      if (before + by > 0) this.holders.set(buffer, before + by)
      else this.holders.delete(buffer)
    }
    const isOnly = buffer === undefined || Math.max(before, before + by) === 1
    if (isOnly) this.bytes += by * bytes
  }
}

const callers = new Map<string, Caller>()

/**
 * Counts content that a response waits to send, a buffer that several responses share once. Above the
 * limit of their caller, closes the connections of this caller whose clients have read nothing for the
 * longest time.
 * @returns a function that ends the count
 */
export function countUnread(
  call: NodeRequest<unknown>, bytes: number, sent: string | Uint8Array | undefined,
): () => void {
  const { socket } = call.req
  const name = call.caller === undefined ? countedAs(call) : countedAsOwner(call.caller)
  const caller = callers.get(name) ?? new Caller()
  callers.set(name, caller)
  const content = { bytes, buffer: typeof sent === 'object' ? sent : undefined }
  caller.add(socket, content)
  for (const first of caller.unread.keys()) {
    // The only connection of a caller may exceed the limit.
    if (caller.bytes <= LIMIT || caller.unread.size === 1) break
    caller.close(first)
  }
  return () => {
    caller.remove(socket, content)
    if (caller.unread.size === 0 && callers.get(name) === caller) callers.delete(name)
  }
}
