import type { Checkpoint } from './checkpoint.js'
import { checkpointText } from './checkpoint-text.js'
import type { AnyTaskDefinition } from './define.js'

/** The checkpoint of a definition without the option `checkpoint`. */
export const UNDECLARED: Checkpoint = {
  value: undefined,
  async save() {
    throw new TypeError('checkpoint.save: pass defineTask the option checkpoint,'
      + ' which is the schema of the value')
  },
}

/**
 * Returns the checkpoint of a run that no other run continues, such as that of a direct answer. It
 * checks values and keeps nothing.
 */
export function unsavedCheckpoint({ name, checkpoint }: AnyTaskDefinition): Checkpoint {
  if (checkpoint === undefined) return UNDECLARED
  return {
    value: undefined,
    async save(value) { checkpointText(name, value) },
  }
}
