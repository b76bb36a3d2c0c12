import { ClientError, createClient } from './longhaul-client.js'
import { traced } from './requests.js'
import { currentToken } from './session.js'

function authorization() {
  const token = currentToken()
  if (token === '') throw new ClientError('no_token', 'Choose a token first, at the top of the page.')
  return { authorization: `Bearer ${token}` }
}

const options = { headers: authorization, fetch: traced, retry: { attempts: 5, maxMs: 5000 } }

/** The client of longhaul/client for this server. */
export const client = createClient(options)

/** Sends a request once, for what the client has no method for. Rejects with a `ClientError` for an answer of 400 or above. */
export async function ask(method, path, { headers = {}, body, signal } = {}) {
  const fields = { accept: 'application/json', ...authorization(), ...headers }
  let response
  try {
    response = await traced(path, { method, headers: fields, body, signal, cache: 'no-store' })
  } catch (error) {
    if (signal?.aborted) throw signal.reason
    throw new ClientError('network_error', 'The server cannot be reached.', { cause: error })
  }
  if (response.ok) return response
  const said = await response.json().catch(() => ({}))
  const { code = `http_${response.status}`, error = `The server answered with ${response.status}.`, details } = said
  throw new ClientError(code, error, { status: response.status, details, body: said })
}
