import type { HttpResponse } from '../http/exchange.js'
import { isStreamed, Source, wantsHeadAtOnce, type Chunk } from '../http/body/source.js'

/**
 * Reads a streamed answer into memory, so that the work behind it does not depend on the client. A
 * stream with more than `maxBytes` is passed on as it comes, and so is an event stream.
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

async function* rest(chunks: Uint8Array[], source: Source): AsyncGenerator<Chunk, void, undefined> {
  try {
    for (let chunk = chunks.shift(); chunk !== undefined; chunk = chunks.shift()) yield chunk
    for (let step = await source.next(); step.done !== true; step = await source.next()) yield step.value
  } finally {
    source.close()
  }
}
