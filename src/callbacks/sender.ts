/**
 * Sends one callback request over the network. `longhaul/callbacks` has one over HTTP; the rules
 * that say what, to whom, when and how often are longhaul's own.
 */
export interface CallbackSender {
  /**
   * Called when a task is taken in. Throws an `HttpError` (400 `invalid_callback_url` or
   * `callback_url_forbidden`) for what can never be called. What a name resolves to is looked at by
   * `send`, each time.
   */
  check(url: unknown): void
  /**
   * Makes one POST and resolves to what came of it; follows no redirect. Rejects only when `signal`
   * aborts, with its reason.
   */
  send(request: CallbackRequest): Promise<CallbackReply>
}

/** One request to be made. */
export interface CallbackRequest {
  readonly url: string
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** Sent as it is: it has been signed. */
  readonly body: string
  readonly signal: AbortSignal
  /**
   * Call it with the addresses of the receiver before connecting. `false`: one of them has as many
   * requests under way as it may; then `send` connects to none and resolves to the fault `busy`,
   * and the request is made later.
   */
  readonly admit: (addresses: readonly string[]) => boolean
}

/** Why a receiver gave no answer: not allowed to be called, no connection, or too slow. */
export type SendFault = 'forbidden' | 'unreachable' | 'timeout'

/** What came of one request: a status, why there is none, or `busy` if `admit` gave `false`. */
export type CallbackReply =
  | { readonly status: number; readonly retryAfter?: string | undefined }
  | { readonly fault: SendFault }
  | { readonly fault: 'busy' }
