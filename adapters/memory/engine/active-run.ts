import type { TaskRun } from '../../../src/engine/engine.js'
import { RunSignal } from '../../../src/engine/run-signal.js'
import type { StoredTask } from '../../../src/engine/task.js'
import type { Json } from '../../../src/runtime/json.js'
import type { StoredNode } from './stored-node.js'

/** A run that has begun. */
export class ActiveRun extends RunSignal implements TaskRun {
  readonly task: StoredTask
  readonly input: Json
  readonly checkpoint: string | undefined
  readonly crashed: StoredTask | undefined

  /** @param pool - the pool whose place the run has */
  constructor(readonly node: StoredNode, readonly pool: string) {
    super()
    const { task, checkpoint, crashed } = node
    this.task = task
    this.input = node.takeInput()
    this.checkpoint = checkpoint
    this.crashed = crashed
  }
}
