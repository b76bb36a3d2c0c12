import { CALLBACK_OPTIONS, checkOptions, type CallbackOptions } from './options.js'
import { Dispatcher } from './dispatcher.js'
import { checkNames } from '../runtime/option-names.js'
import type { Callbacks } from '../tasks/record/callbacks.js'
import { httpSender } from './http-sender/sender.js'

/**
 * Callbacks for `createTasks`: URLs are told of tasks that have ended, by requests that are signed
 * (Standard Webhooks), tried again, and never made to an address that is not public. `createTasks({
 * …, callbacks: callbacks({ secrets }) })`. Throws a `TypeError` when an option makes no sense.
 */
export function callbacks(options: CallbackOptions): Callbacks {
  checkNames('callbacks', options, CALLBACK_OPTIONS)
  const { sender = httpSender() } = options
  const sent = { ...options, sender }
  checkOptions(sent)
  return { open: (host) => new Dispatcher(sent, host) }
}
