import type { HttpRequest } from '../http/exchange.js'
import type { BulkCall } from './plan.js'

/**
 * The call of a request. The signal is made when a repository reads it: it costs more than to judge
 * and write ten items.
 */
export class DirectCall implements BulkCall {
  readonly #request: HttpRequest

  constructor(request: HttpRequest) {
    this.#request = request
  }

  get signal(): AbortSignal { return this.#request.signal }
  get context(): unknown { return this.#request.context }
  get gone(): boolean | undefined { return this.#request.gone }
}
