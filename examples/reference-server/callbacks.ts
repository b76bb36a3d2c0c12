import { createHmac } from 'node:crypto'
import { HttpError, type Callbacks, type FindCallback } from 'longhaul'
import type { Queue } from 'longhaul/queues'
import { callbacks, httpSender } from 'longhaul/callbacks'
import type { Context, Token } from './auth.js'

/** What the environment says of callbacks. */
export interface CallbackConfig {
  readonly tokens: readonly Token[]
  /** What may be called although it is private. */
  readonly callbackAllow?: readonly string[]
  /** One secret for every subject. */
  readonly callbackSecret?: string | undefined
}

/** Callbacks to whom this server may call, in a queue of their own: receivers that are gone take no room from tasks. */
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
 * A secret for each subject, made of its first token: the same in every process and after every start, no
 * receiver of one subject can forge for another, and it tells nothing of the token.
 */
export function callbackSecrets(tokens: readonly Token[]): Map<string, string> {
  const secrets = new Map<string, string>()
  for (const { subject, token } of tokens) {
    if (!secrets.has(subject)) secrets.set(subject, `whsec_${createHmac('sha256', token).update('longhaul callbacks').digest('base64')}`)
  }
  return secrets
}

/** Every body that asks for work may say whom to call. */
export const callbackUrl: FindCallback<Context> = (body) => body['callbackUrl']
