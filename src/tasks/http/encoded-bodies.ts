import { Buffer } from 'node:buffer'
import type { TaskSnapshot } from '../record/snapshot.js'
import { eventId } from './event-stream.js'
import { taskFormat, type TaskFormat } from './formats.js'

/** Below this length, a copy for each connection is cheaper than sharing one. In UTF-16 units. */
const MIN_SHARED_LENGTH = 16_384

/**
 * Encodes each version of a task once, for all requests that have waited for it. A text would be
 * copied for every connection that has not received it yet.
 */
export class EncodedBodies {
  private readonly events = new WeakMap<TaskSnapshot, Encoded>()
  private readonly bodies = new WeakMap<TaskSnapshot, Encoded>()

  constructor(private readonly format: TaskFormat) {}

  /** Returns the server-sent event of a version. */
  event(task: TaskSnapshot, statusUrl: string): Uint8Array {
    return this.encoded(this.events, task, statusUrl, () => (
      `id: ${eventId(task)}\ndata: ${this.format.toText(task, statusUrl)}\n\n`
    ))
  }

  /** Returns the body of a status answer. */
  body(task: TaskSnapshot, statusUrl: string): string | Uint8Array {
    const text = () => this.format.toText(task, statusUrl)
    return task.text.length < MIN_SHARED_LENGTH
      ? text()
      : this.encoded(this.bodies, task, statusUrl, text)
  }

  private encoded(
    known: WeakMap<TaskSnapshot, Encoded>, task: TaskSnapshot, statusUrl: string,
    textOf: () => string,
  ): Uint8Array {
    // The task format is the same at every path, except for URLs of files.
    const path = this.format === taskFormat && !task.blobs ? '' : statusUrl
    const last = known.get(task)
    if (last?.path === path) return last.bytes
    const bytes = Buffer.from(textOf())
    known.set(task, { path, bytes })
    return bytes
  }
}

interface Encoded {
  readonly path: string
  readonly bytes: Uint8Array
}
