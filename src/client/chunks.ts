import { ClientError } from './errors.js'
import type { Scope } from './scope.js'

/** What bytes can be read from. */
export type ByteSource = ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>

/**
 * The bytes of an answer as they come. Closes the scope at the end, and lets go of the connection
 * when the reader stops early. Rejects with a `ClientError` when the connection breaks.
 */
export async function* chunksOf(body: ReadableStream<Uint8Array> | null, scope: Scope): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = body?.getReader()
  // A body that was not made by `fetch` does not hear of the signal.
  const cancel = () => { reader?.cancel().catch(() => undefined) }
  scope.signal.addEventListener('abort', cancel)
  try {
    for (;;) {
      const { done, value } = await reader?.read() ?? { done: true }
      if (scope.signal.aborted) throw scope.signal.reason
      if (done || value === undefined) return
      scope.touch()
      yield value
      // However long the caller took, the server was not silent.
      scope.touch()
    }
  } catch (error) {
    throw scope.explain(error)
  } finally {
    scope.signal.removeEventListener('abort', cancel)
    scope.close()
    cancel()
  }
}

/** Async iteration over a stream, which not every browser has itself. */
export async function* toIterable(source: ByteSource): AsyncGenerator<Uint8Array, void, undefined> {
  if (Symbol.asyncIterator in source && !('getReader' in source)) {
    yield* source
    return
  }
  const reader = (source as ReadableStream<Uint8Array>).getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield value
    }
  } finally {
    reader.cancel().catch(() => undefined)
  }
}

/**
 * All of an answer as text. Throws a `ClientError` `answer_too_large` above `maxBytes`, without
 * holding more.
 */
export async function readText(response: Response, scope: Scope, maxBytes: number): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  for await (const chunk of chunksOf(response.body, scope)) {
    bytes += chunk.length
    if (bytes > maxBytes) throw new ClientError('answer_too_large', `The answer is longer than ${maxBytes} bytes.`, { status: response.status })
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}
