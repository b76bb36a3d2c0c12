import { ContentDigest } from '../http/fields/digests.js'
import { httpError } from '../http/errors.js'
import type { BodySource, RequestHeaders } from '../http/exchange.js'
import { Gathered } from '../runtime/text.js'

/** The body of an injected request, which is read once. */
export class InjectedBody implements BodySource {
  readonly parsed = undefined
  readonly #content: Uint8Array | AsyncIterable<Uint8Array | string>
  readonly #headers: RequestHeaders
  #read = false
  #stop: (() => void) | undefined
  #stopped = false

  constructor(content: Uint8Array | AsyncIterable<Uint8Array | string>, headers: RequestHeaders) {
    this.#content = content
    this.#headers = headers
  }

  async bytes(limit: number): Promise<Uint8Array | undefined> {
    const gathered = new Gathered()
    for await (const piece of this.stream()) {
      if (gathered.size + piece.byteLength > limit) return undefined
      gathered.add(piece)
    }
    return gathered.bytes
  }

  stream(): AsyncGenerator<Uint8Array, void, undefined> {
    const digest = ContentDigest.of(this.#headers)
    return digest === undefined ? this.#pieces() : digest.checked(this.#pieces())
  }

  stop(): void {
    this.#stopped = true
    this.#stop?.()
  }

  async* #pieces(): AsyncGenerator<Uint8Array, void, undefined> {
    if (this.#read) throw new Error('The body of this request can be read only once')
    this.#read = true
    if (this.#content instanceof Uint8Array) {
      if (this.#content.byteLength > 0) yield this.#content
      return
    }
    const source = this.#content[Symbol.asyncIterator]()
    try {
      for (;;) {
        const step = await this.#next(source)
        if (step.done === true) return
        yield typeof step.value === 'string' ? Buffer.from(step.value) : step.value
      }
    } finally {
      // Not awaited, because a source that waits would delay the end.
      source.return?.().catch(() => undefined)
    }
  }

  #next(
    source: AsyncIterator<Uint8Array | string>,
  ): Promise<IteratorResult<Uint8Array | string>> {
    return new Promise((resolve, reject) => {
      this.#stop = () => { reject(httpError('incomplete_body')) }
      if (this.#stopped) this.#stop()
      else source.next().then(resolve, reject)
    })
  }
}
