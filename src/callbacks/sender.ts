/**
 * Sends callback requests over the network. `httpSender` is the implementation over HTTP. longhaul
 * decides what is sent, to whom, when and how often.
 */
export interface CallbackSender {
  /**
   * Called when a task is accepted. Does not check the addresses of a name: `send` does, each time.
   *
   * @throws {HttpError} `invalid_callback_url` or `callback_url_forbidden` (400): the URL can never
   * be called.
   */
  check(url: unknown): void
  /**
   * Makes one POST request and resolves to its outcome. Follows no redirect. Rejects only if
   * `signal` aborts, with its reason.
   */
  send(request: CallbackRequest): Promise<CallbackReply>
}

/** One callback request. */
export interface CallbackRequest {
  readonly url: string
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** Body, already signed. Send it unchanged. */
  readonly body: string
  readonly signal: AbortSignal
  /**
   * Call with the addresses of the receiver before connecting. If it returns `false`, one of them
   * has reached its limit of concurrent requests. `send` must then resolve to the fault `busy`
   * without connecting; the request is made later.
   */
  readonly admit: (addresses: readonly string[]) => boolean
}

/**
 * Reason for a request without a response: the address is forbidden, there is no connection, or the
 * request timed out.
 */
export type SendFault = 'forbidden' | 'unreachable' | 'timeout'

/** Outcome of one request: a status, a fault, or `busy` if `admit` returned `false`. */
export type CallbackReply =
  | { readonly status: number; readonly retryAfter?: string | undefined }
  | { readonly fault: SendFault }
  | { readonly fault: 'busy' }
