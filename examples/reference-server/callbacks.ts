import { createHmac } from 'node:crypto'
import { HttpError, type Callbacks, type FindCallback } from 'longhaul'
import type { Queue } from 'longhaul/queues'
import { callbacks, httpSender } from 'longhaul/callbacks'
import type { Context, Token } from './auth.js'

/** Settings of callbacks from the environment. */
export interface CallbackConfig {
  readonly tokens: readonly Token[]
  /** Private addresses and hosts that may be called. */
  readonly callbackAllow?: readonly string[]
  /** One secret for every subject. */
  readonly callbackSecret?: string | undefined
}

/** Callbacks with their own queue, so that dead receivers take no slots from tasks. */
export function openCallbacks(config: CallbackConfig, queue: Queue): Callbacks {
  const { callbackSecret, tokens, callbackAllow = [] } = config
  const secrets = callbackSecrets(tokens)
  return callbacks({
    sender: httpSender({ allow: callbackAllow }), queue,
    secrets: (owner) => {
      const secret = callbackSecret ?? secrets.get(owner ?? '')
      if (secret === undefined) throw new HttpError(403, 'forbidden', { message: 'There is no secret to sign your callbacks with.' })
      return [secret]
    },
  })
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

/** Reads the callback URL, which every submission may have. */
export const callbackUrl: FindCallback<Context> = (body) => body['callbackUrl']
