// A browser opens six connections to a server of HTTP/1.1. Were all of them streams of events, nothing else would get through.
const SLOTS = 3
let taken = 0
let waiting = []

/** Takes a connection for a stream of events; the function that gives it back, or `undefined` when there is none to spare. */
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

/** Resolves when somebody gives a connection back. */
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
