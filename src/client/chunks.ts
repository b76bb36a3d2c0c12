import { ClientError } from './errors.js'
import type { Scope } from './scope.js'

/** A source of bytes. */
export type ByteSource = ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>

/**
 * Yields the bytes of a response body as they arrive. Closes the scope at the end. Releases the
 * connection if the reader stops early. Rejects with a `ClientError` if the connection breaks.
 */
export async function* chunksOf(
  body: ReadableStream<Uint8Array> | null, scope: Scope,
): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = body?.getReader()
  // The signal does not reach a body that a custom `fetch` has created.
  const cancel = () => { reader?.cancel().catch(() => undefined) }
  scope.signal.addEventListener('abort', cancel)
  try {
    for (;;) {
      const { done, value } = await reader?.read() ?? { done: true }
      if (scope.signal.aborted) throw scope.signal.reason
      if (done || value === undefined) return
      scope.touch()
      yield value
      // The time that the caller took does not count as silence of the server.
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

/** Iterates over a stream. Not every browser can do that itself. */
export async function* toIterable(
  source: ByteSource,
): AsyncGenerator<Uint8Array, void, undefined> {
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
 * Reads a whole response body as text.
 * @throws {ClientError} `answer_too_large`: the body is larger than `maxBytes`.
 */
export async function readText(
  response: Response, scope: Scope, maxBytes: number,
): Promise<string> {
  const decoder = new TextDecoder()
  const { status } = response
  let text = ''
  let bytes = 0
  for await (const chunk of chunksOf(response.body, scope)) {
    bytes += chunk.length
    if (bytes > maxBytes) {
      const message = `The answer is longer than ${maxBytes} bytes.`
      throw new ClientError('answer_too_large', message, { status })
    }
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}
