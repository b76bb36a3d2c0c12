/** Calls a listener of the host's. What it throws or rejects with harms nothing: it is heard as a warning. */
export function telling(listener: () => unknown): void {
  try {
    const told = listener()
    if (told instanceof Promise) told.catch(warn)
  } catch (failure) {
    warn(failure)
  }
}

/**
 * What is heard of a failure when the host has no `onError`: a process warning named `LonghaulError`, which Node prints
 * on stderr. As a text, because a warning that can't be printed would end the process.
 */
export function warn(error: unknown): void {
  let text = 'Something failed with a value that can not be shown'
  try {
    text = error instanceof Error && typeof error.stack === 'string' ? error.stack : String(error)
  } catch {
    // A getter or a proxy of the thrown value threw: the general text will do.
  }
  process.emitWarning(text, 'LonghaulError')
}
