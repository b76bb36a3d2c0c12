import type { ConnectionOptions, Queue as BullQueue } from 'bullmq'
import { Silence, type Connected } from '../redis/silence.js'

const WARNING = 'BullMQQueue: the connection has enableAutoPipelining, which costs a third of the '
  + 'throughput of BullMQ. Give BullMQ a connection of its own, without it.'

let warned = false

/**
 * Warns once in a process about a connection that batches its commands (`enableAutoPipelining`).
 */
export function checkPipelining(connection: ConnectionOptions): void {
  if (warned || !autoPipelines(connection)) return
  warned = true
  process.emitWarning(WARNING, 'LonghaulWarning')
}

function autoPipelines(connection: ConnectionOptions): boolean {
  interface Settings { readonly enableAutoPipelining?: unknown }
  // Options, or a client that has its options as a member.
  const { enableAutoPipelining, options } = connection as Settings & { readonly options?: Settings }
  return enableAutoPipelining === true || options?.enableAutoPipelining === true
}

/**
 * Watches a connection of BullMQ for a lost peer. Only ioredis has a known way to replace a
 * connection.
 */
export function silenceOf(owner: Pick<BullQueue, 'getBackend'>, timeoutMs: number): Silence {
  return new Silence(async () => {
    const client: unknown = await owner.getBackend().client
    const isIoredis = typeof (client as { defineCommand?: unknown }).defineCommand === 'function'
    return isIoredis ? client as Connected : undefined
  }, timeoutMs)
}

/** Ends a connection that BullMQ has made. A client that was passed is for its owner to close. */
export function disconnect(
  queue: Pick<BullQueue, 'getBackend'>, connection: ConnectionOptions,
): void {
  if (typeof (connection as { duplicate?: unknown }).duplicate === 'function') return
  queue.getBackend().client.then((client) => { client.disconnect() }, () => undefined)
}
