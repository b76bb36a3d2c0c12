import type { HttpResponse } from '../http/exchange.js'
import { isStreamed, Source, wantsHeadAtOnce, type Chunk } from '../http/body/source.js'

/**
 * Reads a streamed response into memory, so that its work does not depend on the client. A stream
 * with more than `maxBytes`, and an event stream, are passed on as they arrive.
 */
export async function buffered(response: HttpResponse, maxBytes: number): Promise<HttpResponse> {
  const { body, headers } = response
  if (!isStreamed(body) || wantsHeadAtOnce(headers)) return response
  const source = new Source(body)
  const chunks: Uint8Array[] = []
  let size = 0
  while (size <= maxBytes) {
    const step = await source.next()
    if (step.done === true) return { ...response, body: Buffer.concat(chunks) }
    // A copy: a source may use its chunk again.
    const chunk = typeof step.value === 'string' ? Buffer.from(step.value) : Buffer.from(step.value)
    chunks.push(chunk)
    size += chunk.byteLength
  }
  return { ...response, body: rest(chunks, source) }
}

async function* rest(
  chunks: Uint8Array[], source: Source,
): AsyncGenerator<Chunk, void, undefined> {
  try {
    for (let chunk = chunks.shift(); chunk !== undefined; chunk = chunks.shift()) yield chunk
    for (;;) {
      const step = await source.next()
      if (step.done === true) return
      yield step.value
    }
  } finally {
    source.close()
  }
}
