import { httpError } from '../../http/errors.js'
import type { AnyTaskDefinition } from '../definition/define.js'

/** Rejects with `task_timeout` when a schema takes longer than a run may. */
export async function inTime(
  validating: Promise<never>, { name, timeoutMs }: AnyTaskDefinition,
): Promise<never> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const cause = new Error(`The schema of ${name} took longer than ${String(timeoutMs)} ms`)
      reject(httpError('task_timeout', { cause }))
    }, timeoutMs).unref()
  })
  try {
    return await Promise.race([validating, late])
  } finally {
    clearTimeout(timer)
  }
}
