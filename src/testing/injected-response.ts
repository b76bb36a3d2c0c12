import { Source } from '../http/body/source.js'
import { Gathered } from '../runtime/text.js'

type Headers = Readonly<Record<string, string | string[]>>

/** The answer of a handler, as a client would receive it. */
export class InjectedResponse {
  readonly status: number
  /** Lower-case names. A list is sent as that many field lines. */
  readonly headers: Headers
  readonly #source: Source | undefined
  readonly #onFailure: (error: unknown) => void
  #whole: Uint8Array | Promise<Uint8Array> | undefined
  #streamed = false

  /** Use `inject`. */
  constructor(
    status: number,
    headers: Headers,
    body: Uint8Array | Source,
    onFailure: (error: unknown) => void,
  ) {
    this.status = status
    this.headers = headers
    this.#source = body instanceof Source ? body : undefined
    this.#whole = body instanceof Source ? undefined : body
    this.#onFailure = onFailure
  }

  /**
   * Returns the body parsed as JSON.
   *
   * @throws {SyntaxError} The body is not JSON.
   */
  async json<T = unknown>(): Promise<T> {
    return JSON.parse(await this.text()) as T
  }

  /** Returns the body as UTF-8 text. */
  async text(): Promise<string> {
    return new TextDecoder().decode(await this.bytes())
  }

  /**
   * Returns the whole body. It may be called again.
   *
   * @throws {Error} The handler's stream failed midway. A server cuts the connection then. `cause`
   * is the error of the stream.
   */
  async bytes(): Promise<Uint8Array> {
    return this.#whole ??= this.#gather()
  }

  /**
   * Returns the chunks of the body as the handler sends them, once. Stop early to close the
   * handler's stream: an event stream has no end of its own.
   */
  async* stream(): AsyncGenerator<Uint8Array, void, undefined> {
    const source = this.#source
    if (source === undefined) {
      yield await this.bytes()
      return
    }
    if (this.#streamed) throw new Error('The body of this answer was read before')
    this.#streamed = true
    try {
      for (let step = await source.next(); step.done !== true; step = await source.next()) {
        yield typeof step.value === 'string' ? Buffer.from(step.value) : step.value
      }
    } catch (error) {
      this.#onFailure(error)
      throw new Error('The stream of this answer failed before its end', { cause: error })
    } finally {
      source.close()
    }
  }

  async #gather(): Promise<Uint8Array> {
    const gathered = new Gathered()
    for await (const chunk of this.stream()) gathered.add(chunk)
    return gathered.bytes
  }
}
