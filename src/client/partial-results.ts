import type { PartialLine, PartialResult } from '../wire/partial.js'
import type { Client } from './client.js'
import { checkNames, ClientError } from './errors.js'
import { canRetry, jitter, pause } from './retry.js'
import type { TaskHandle } from './task.js'

/** Options of `readPartialResults`. */
export interface PartialResultsOptions {
  /** Id of the last partial result that is known, from an earlier call. Default: none. */
  readonly after?: string
  /**
   * Called if results before the next one are missing, because the task has dropped them or emitted
   * too many. Default: nothing.
   */
  readonly onGap?: () => void
  /** Stops reading. The task continues. */
  readonly signal?: AbortSignal
}

/** Failures in a row after which the last one is thrown. */
const ATTEMPTS = 8
/** A connection of this duration was no failure, even if no data arrived. In milliseconds. */
const LASTING_MS = 10_000

/** A proxy may end a broken stream as if it were whole, in the middle of a line. */
function onFault(): never {
  throw new ClientError('network_error', 'The partial results broke off.')
}

/**
 * Yields the partial results of a task while it runs, until it is final. After a broken connection it
 * continues after the last one. The server has them at `{status}/partial-results`.
 *
 * @throws {ClientError} The server has no such task, or could not be reached.
 * @example
 * import { readPartialResults } from 'longhaul/client'
 *
 * const task = await api.submit('/answers', { question: 'Why?' })
 * for await (const { value } of readPartialResults<string>(api, task)) console.log(value)
 */
export async function* readPartialResults<T = unknown>(
  client: Pick<Client, 'records'>, { statusUrl }: Pick<TaskHandle, 'statusUrl'>,
  options: PartialResultsOptions = {},
): AsyncGenerator<PartialResult<T>, void, undefined> {
  checkNames('readPartialResults', options, ['after', 'onGap', 'signal'])
  // The server responded at once.
  if (statusUrl === undefined) return
  const { onGap, signal } = options
  let { after } = options
  for (let failures = 0; ;) {
    const began = performance.now()
    try {
      const query = after === undefined ? '' : `?after=${encodeURIComponent(after)}`
      const lines = client.records<PartialLine<T>>(`${statusUrl}/partial-results${query}`, { ...signal && { signal }, onFault })
      for await (const line of lines) {
        failures = 0
        if ('end' in line) return
        // A heartbeat of another server may have none.
        if (line.id === undefined) continue
        after = line.id
        if ('gap' in line) onGap?.()
        else yield { id: line.id, value: line.value }
      }
      throw new ClientError('network_error', 'The stream of partial results ended too early.')
    } catch (error) {
      if (performance.now() - began > LASTING_MS) failures = 0
      if (++failures >= ATTEMPTS || !canRetry(error, 'read')) throw error
      await pause(jitter(Math.min(250 * 2 ** (failures - 1), 30_000)), signal)
    }
  }
}
