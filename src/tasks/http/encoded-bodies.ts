import { Buffer } from 'node:buffer'
import type { TaskSnapshot } from '../record/codec.js'
import { eventId } from './events.js'
import { taskFace, type Face } from './faces.js'

/**
 * Below this, a copy for each connection costs less than what it takes to share one. In UTF-16
 * units.
 */
const LARGE = 16_384

/**
 * Encodes each version of a task once, for all requests that have waited for it. A text would be
 * copied for every connection that has not taken it yet.
 */
export class SharedFace {
  private readonly events = new WeakMap<TaskSnapshot, Encoded>()
  private readonly bodies = new WeakMap<TaskSnapshot, Encoded>()

  constructor(private readonly face: Face) {}

  /** The server-sent event of this version. */
  event(task: TaskSnapshot, statusUrl: string): Uint8Array {
    return this.encoded(this.events, task, statusUrl, () => `id: ${eventId(task)}\ndata: ${this.face.toText(task, statusUrl)}\n\n`)
  }

  /** The body of a status answer. */
  body(task: TaskSnapshot, statusUrl: string): string | Uint8Array {
    const text = () => this.face.toText(task, statusUrl)
    return task.face.length < LARGE ? text() : this.encoded(this.bodies, task, statusUrl, text)
  }

  private encoded(known: WeakMap<TaskSnapshot, Encoded>, task: TaskSnapshot, statusUrl: string, textOf: () => string): Uint8Array {
    // The task face is the same at every path.
    const path = this.face === taskFace ? '' : statusUrl
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
