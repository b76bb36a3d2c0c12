import { createHmac } from 'node:crypto'
import { HttpError, isHttpError, type Callbacks } from 'longhaul'
import { callbacks, httpSender, type CallbackSender } from 'longhaul/callbacks'
import type { Token } from './auth.js'

/** Settings of callbacks from the environment. */
export interface CallbackConfig {
  readonly tokens: readonly Token[]
  /** Private addresses and hosts that may be called. */
  readonly callbackAllow?: readonly string[]
  /** One secret for every subject. */
  readonly callbackSecret?: string | undefined
}

/** Callbacks that are signed with the secrets of this server. */
export function openCallbacks(config: CallbackConfig): Callbacks {
  const { callbackSecret, tokens, callbackAllow = [] } = config
  const secrets = callbackSecrets(tokens)
  return callbacks({
    sender: openSender(callbackAllow),
    secrets: (owner) => {
      const secret = callbackSecret ?? secrets.get(owner ?? '')
      if (secret === undefined) throw new HttpError(403, 'forbidden', { message: 'There is no secret to sign your callbacks with.' })
      return [secret]
    },
  })
}

/** Opens a sender that advises the operator of this server. */
function openSender(allow: readonly string[]): CallbackSender {
  const sender = httpSender({ allow })
  return {
    send: (request) => sender.send(request),
    check: (url) => {
      try {
        sender.check(url)
      } catch (error) {
        if (!isHttpError(error)) throw error
        const { status, code, message, cause } = error
        throw new HttpError(status, code, {
          message, ...cause !== undefined && { cause: new Error('A callback URL names a private host. CALLBACK_ALLOW lists those that may be called.') },
        })
      }
    },
  }
}

/**
 * Derives a secret for each subject from its first token. It is the same in every process and after every start. No
 * receiver of one subject can forge callbacks for another, and the secret does not reveal the token.
 */
export function callbackSecrets(tokens: readonly Token[]): Map<string, string> {
  const secrets = new Map<string, string>()
  for (const { subject, token } of tokens) {
    if (!secrets.has(subject)) secrets.set(subject, `whsec_${createHmac('sha256', token).update('longhaul callbacks').digest('base64')}`)
  }
  return secrets
}
