// A browser opens at most six connections to a server over HTTP/1.1. If all of them were event streams, no other request could be sent.
const SLOTS = 3
let taken = 0
let waiting = []

/** Acquires a connection for an event stream. Returns the function that releases it, or `undefined` if none is free. */
export function take() {
  if (taken >= SLOTS) return undefined
  taken++
  let given = false
  return () => {
    if (given) return
    given = true
    taken--
    const tell = waiting
    waiting = []
    for (const each of tell) each()
  }
}

/** Resolves when a connection is released. */
export function freed() {
  return new Promise((resolve) => { waiting.push(resolve) })
}

/** Resolves after some time; rejects when the signal aborts. */
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const quit = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    if (signal?.aborted) {
      reject(signal.reason)
      return
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', quit)
      resolve()
    }, ms)
    signal?.addEventListener('abort', quit, { once: true })
  })
}
