import { config } from './config.js'
import { ClientError, createClient } from './longhaul-client.js'
import { currentToken } from './session.js'

let observe = () => undefined

/** Calls `listen` with the URL, the options and the promise of the response of each request of the page. */
export function observeRequests(listen) {
  observe = listen
}

function observed(url, init) {
  const response = fetch(url, init)
  observe(url, init, response)
  return response
}

/** Returns the headers that say who the user is. Without tokens, the cookies of the browser say it. */
function authorization() {
  if (!config.bearer) return {}
  const token = currentToken()
  if (token === '') throw new ClientError('no_token', 'Choose a token first, at the top of the page.')
  return { authorization: `Bearer ${token}` }
}

const options = { headers: authorization, fetch: observed, retry: { attempts: 5, maxMs: 5000 } }

/** The client of longhaul/client for this server. */
export const client = createClient(options)

/**
 * Sends one request, for which the client has no method. Rejects with a `ClientError` if the status of the response
 * is 400 or above.
 */
export async function ask(method, path, { headers = {}, body, signal } = {}) {
  const fields = { accept: 'application/json', ...authorization(), ...headers }
  let response
  try {
    response = await observed(path, { method, headers: fields, body, signal, cache: 'no-store' })
  } catch (error) {
    if (signal?.aborted) throw signal.reason
    throw new ClientError('network_error', 'The server cannot be reached.', { cause: error })
  }
  if (response.ok) return response
  const failure = await response.json().catch(() => ({}))
  const { code = `http_${response.status}`, error = `The server responded with ${response.status}.`, details } = failure
  throw new ClientError(code, error, { status: response.status, details, body: failure })
}
