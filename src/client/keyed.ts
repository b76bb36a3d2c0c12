import { isClientError, type ClientError } from './errors.js'
import type { Settings } from './options.js'
import {
  ask, canRetry, newKey, readAnswer, retrying, send, type Answer, type Call,
} from './transport.js'

/** A harmless request that shows if the server honours keys, such as one without items. */
export interface Question {
  readonly body: string
  readonly headers?: Readonly<Record<string, string>>
}

/** A request with an Idempotency-Key. */
export interface KeyedCall extends Call {
  readonly key: string
  /** True if the application did not choose the key, so the request may also be sent without it. */
  readonly isOptional: boolean
  /**
   * Request to send before a lost one is repeated, if it is unknown whether the server honours keys.
   * Absent: the request is repeated then. `none`: it is not repeated, because no question is harmless.
   */
  readonly question: Question | 'none' | undefined
}

/** Maximum number of endpoints of which a client remembers how they treat keys. */
const MAX_ENDPOINTS = 1000

/**
 * Sends a request with an Idempotency-Key. A server acknowledges the key by the response header
 * `Idempotency-Key`. If a response was lost, the request is repeated only where keys are
 * acknowledged, because any other server may do the work twice.
 */
export async function askKeyed(settings: Settings, call: KeyedCall): Promise<Answer> {
  const { key, isOptional, question, signal } = call
  const endpoint = new Endpoint(settings, call)
  const withoutKey = (): Promise<Answer> => ask(settings, 'refused', call)
  if (isOptional && endpoint.keys === 'rejected') return withoutKey()
  const mayRepeat = async (error: ClientError): Promise<boolean> => {
    if (canRetry(error, 'refused')) return true
    if (!canRetry(error, 'keyed')) return false
    if (typeof question === 'object' && endpoint.keys === undefined) await endpoint.ask(question)
    return endpoint.keys === 'honoured' || (endpoint.keys === undefined && question === undefined)
  }
  try {
    return await retrying(settings, mayRepeat, signal, () => (
      send(settings, endpoint.keyed(call, key), readAnswer)
    ))
  } catch (error) {
    if (!isClientError(error) || error.code !== 'idempotency_not_supported') throw error
    endpoint.keys = 'rejected'
    if (!isOptional) throw error
    return withoutKey()
  }
}

/** One method and path. Knows what the server does with keys there. */
class Endpoint {
  private readonly name: string

  constructor(private readonly settings: Settings, private readonly call: Call) {
    const { method, url } = call
    this.name = `${method} ${url.origin}${url.pathname}`
  }

  get keys(): 'honoured' | 'ignored' | 'rejected' | undefined {
    return this.settings.keys.get(this.name)
  }

  set keys(keys: 'honoured' | 'ignored' | 'rejected' | undefined) {
    const { keys: known } = this.settings
    known.delete(this.name)
    if (keys === undefined) return
    for (const oldest of known.keys()) {
      if (known.size < MAX_ENDPOINTS) break
      known.delete(oldest)
    }
    known.set(this.name, keys)
  }

  /** Returns a request with a key, whose response shows if the server honours it. */
  keyed(call: Call, key: string): Call {
    return {
      ...call, headers: { 'idempotency-key': key, ...call.headers },
      onHeaders: (headers, status) => {
        if (headers.get('idempotency-key') === key) this.keys = 'honoured'
        // Other failures may come from a proxy, or from before the key is read.
        else if (status < 300) this.keys = 'ignored'
      },
    }
  }

  /** Asks the server whether it honours keys. No answer leaves the question open. */
  async ask({ body, headers }: Question): Promise<void> {
    const { settings, call } = this
    const { prefer: _, ...kept } = { prefer: undefined, ...call.headers, ...headers }
    const question = this.keyed({ ...call, headers: kept, body: () => body }, newKey())
    try {
      await ask(settings, 'read', question)
    } catch (error) {
      if (!isClientError(error)) throw error
    }
  }
}
