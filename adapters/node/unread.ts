import type { Socket } from 'node:net'
import { countedAs } from '../../src/http/requester.js'
import { heapShare } from '../../src/runtime/shared-limit.js'
import type { NodeRequest } from './request.js'

/** Maximum bytes of responses that the clients of one caller have not read. */
const LIMIT = heapShare(8, 128)
/** Smaller buffers may be parts of a pool of Node. In bytes. */
const MIN_SHARED = 16_384

/** Content that a response waits to send. */
interface Content {
  readonly bytes: number
  /** Memory that several responses may share, such as those of all watchers of a task: counted once. */
  readonly shared: ArrayBufferLike | undefined
}

class Caller {
  bytes = 0
  /** Contents by connection. The connection that has read nothing for the longest time is first. */
  readonly unread = new Map<Socket, Set<Content>>()
  private readonly held = new Map<ArrayBufferLike, { holders: number, readonly bytes: number }>()

  add(socket: Socket, content: Content): void {
    const contents = this.unread.get(socket)
    if (contents === undefined) this.unread.set(socket, new Set([content]))
    else contents.add(content)
    this.hold(content, 1)
  }

  /** Removes content that a client has read, and moves its connection to the end of the order. */
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

  private hold({ bytes, shared }: Content, by: 1 | -1): void {
    if (shared === undefined) {
      this.bytes += by * bytes
      return
    }
    const held = this.held.get(shared) ?? { holders: 0, bytes }
    held.holders += by
    if (by === 1 && held.holders === 1) {
      this.held.set(shared, held)
      this.bytes += held.bytes
    } else if (held.holders === 0) {
      this.held.delete(shared)
      this.bytes -= held.bytes
    }
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
  const name = call.caller ?? countedAs(call)
  const caller = callers.get(name) ?? new Caller()
  callers.set(name, caller)
  const content = { bytes, shared: sharedMemory(sent) }
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

/**
 * Returns the memory of a buffer. The bytes that count are those that are sent: they may be a part of a
 * much larger buffer of the application.
 */
function sharedMemory(sent: string | Uint8Array | undefined): ArrayBufferLike | undefined {
  return typeof sent === 'object' && sent.byteLength >= MIN_SHARED ? sent.buffer : undefined
}
