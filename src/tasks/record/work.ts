import type { Backoff } from '../../queues/queue.js'

/**
 * What a job needs beside its record. It lies in the record until the first run begins, so that a
 * job which the queue lost can be made anew.
 */
export interface Work {
  readonly input: unknown
  readonly context?: unknown
  readonly attempts: number
  readonly backoff: Backoff
}

/** Characters of JSON. What is longer would cost each poll of a waiting task too much. */
const MAX_LENGTH = 16_384

/** The work as text; `undefined` when it is too long: it is then in its job alone. */
export function toWork(work: Work): string | undefined {
  const text = JSON.stringify(work)
  return text.length > MAX_LENGTH ? undefined : text
}

/** The work that `toWork` wrote. */
export function readWork(text: string): Work {
  return JSON.parse(text) as Work
}
