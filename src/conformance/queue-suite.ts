import { checkNames } from '../runtime/option-names.js'
import { QueueBench, type QueueConformanceOptions, type QueueFixture } from './queue-bench.js'
import { closing } from './queue-close.js'
import { handBack } from './queue-hand-back.js'
import { retries } from './queue-retries.js'
import { room } from './queue-room.js'
import { running } from './queue-running.js'
import { register, type Runner } from './runner.js'

const KNOWN = { title: 0, tolerance: 0, patience: 0 } satisfies Record<keyof QueueConformanceOptions, 0>

/**
 * The behaviour that every `Queue` has to show. Give it your test runner and a factory that makes a
 * fresh, empty queue for each test.
 *
 * ```ts
 * import * as runner from 'node:test'
 * import { queueConformance } from 'longhaul/conformance'
 *
 * queueConformance(runner, async () => ({ queue: new MyQueue(randomName()) }))
 * ```
 */
export function queueConformance(runner: Runner, factory: () => Promise<QueueFixture>, options: QueueConformanceOptions = {}): void {
  checkNames('queueConformance', options, KNOWN)
  const groups = { running, retries, 'hand back': handBack, room, close: closing }
  register(runner, options.title ?? 'Queue conformance', groups, async () => new QueueBench(await factory(), options))
}
