import { CALLBACK_OPTIONS, callbackSettings, type CallbackOptions } from './options.js'
import { Deliveries } from './deliveries.js'
import { checkNames } from '../runtime/option-names.js'
import type { Callbacks } from '../tasks/core/task-core.js'
import { httpSender } from './http-sender/sender.js'

/**
 * Enables callbacks in `createTasks`. When a task ends, longhaul sends a signed request (Standard
 * Webhooks) to its callback URL. Failed requests are retried. Addresses that are not public are
 * never called.
 *
 * @example
 * const tasks = createTasks({
 *   ...memory(),
 *   definitions: [report],
 *   callbacks: callbacks({ secrets: (owner) => secretsOf(owner) }),
 * })
 *
 * @throws {TypeError} An option is unknown or out of range.
 */
export function callbacks(options: CallbackOptions): Callbacks {
  checkNames('callbacks', options, CALLBACK_OPTIONS)
  const { sender = httpSender() } = options
  const settings = callbackSettings({ ...options, sender })
  // Twice as many, because an attempt that exceeds a limit only postpones itself.
  return { concurrency: 2 * settings.maxInFlight, open: (core) => new Deliveries(core, settings) }
}
