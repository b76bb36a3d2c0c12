import { isFinal } from './task-parts.js'
import { freed, pause, take } from './watching.js'

/** Time between two polls of a task that has no event stream, in milliseconds. */
const POLL_MS = 1500
/** Shortest and longest time between two polls for the state of a callback, in milliseconds. */
const CALLBACK_MS = 2000
const CALLBACK_MAX_MS = 30_000

/**
 * Yields the status of a task and each change, until the task is final. Uses an event stream if a
 * connection is free. Polls otherwise.
 */
export async function* changesOf(handle, signal) {
  for (;;) {
    const release = take()
    if (release) {
      try {
        yield* handle.changes({ signal })
      } finally {
        release()
      }
      return
    }
    const task = await handle.status({ signal })
    yield task
    if (isFinal(task)) return
    await Promise.race([pause(POLL_MS, signal), freed()])
  }
}

/** Yields the status of a final task until its callback is delivered or has failed. */
export async function* callbackOf(handle, callback, signal) {
  while (callback?.state === 'waiting' || callback?.state === 'pending') {
    const next = Date.parse(callback.nextAttemptAt ?? '') - Date.now() + 500
    await pause(Math.min(CALLBACK_MAX_MS, Math.max(CALLBACK_MS, next || 0)), signal)
    const task = await handle.status({ signal })
    yield task
    callback = task.callback
  }
}
