import { isDeepStrictEqual } from 'node:util'
import { isFinalStatus, type StoredTask } from '../../engine/task.js'
import { httpError } from '../../http/errors.js'
import { isJsonObject } from '../../http/body/json.js'
import type { ErrorDetail } from '../../wire/errors.js'
import { childPointer } from '../../schema/pointer.js'
import { judge } from '../../schema/schema.js'
import { MAX_INPUTS_LENGTH } from '../definition/asks.js'
import { detailsOf, isIn, isTaskId, type Details, type Scope } from '../record/details.js'
import { isOpen, type Inputs } from '../record/inputs.js'
import type { TaskCore } from './task-core.js'

/** Number of attempts at a task that others change at the same time. */
const MAX_TRIES = 20

/** Answers of a task by the keys of its questions. */
export type Answers = Readonly<Record<string, unknown>>

/**
 * Stores answers in one change. The last one makes the task due. Resolves to `undefined` if there is no
 * such task. Answers that are stored already change nothing.
 */
export async function answerTask(
  core: TaskCore, id: string, of: Scope, answers: unknown,
): Promise<StoredTask | undefined> {
  let task = isTaskId(id) ? await core.engine.read(id) : undefined
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    if (!task || !isIn(of, task)) return undefined
    const inputs = await answered(core, task, answers)
    if (inputs === undefined) return task
    const { callback, ...details } = detailsOf(task)
    const isComplete = !Object.values(inputs).some(isOpen)
    const changed = await core.change(task, { version: task.version }, isComplete ? {
      status: 'queued', keepMs: core.settings.pendingMs, callbackMs: callback && null,
      details: { ...details, inputs, ...callback && { callback: { ...callback, state: 'waiting' } } },
    } : { details: { ...detailsOf(task), inputs } })
    if (changed.moved) return changed.task
    task = changed.task
  }
  throw httpError('conflict', { message: 'The task was changed meanwhile; try again.' })
}

/** Returns the questions with their answers; `undefined` if all answers are there already. */
async function answered(core: TaskCore, task: StoredTask, answers: unknown): Promise<Inputs | undefined> {
  if (!isJsonObject(answers) || Object.keys(answers).length === 0) {
    const message = 'must be an object with an answer for each key'
    throw httpError('invalid_input', { details: [{ pointer: '', message }] })
  }
  const { inputs = {} }: Details = detailsOf(task)
  const next = { ...inputs }
  const details: ErrorDetail[] = []
  for (const [key, value] of Object.entries(answers)) {
    const input = Object.hasOwn(inputs, key) ? inputs[key] : undefined
    if (input === undefined) {
      throw httpError('unknown_input', { details: [{ pointer: childPointer('', key), message: 'was not asked' }] })
    }
    if (input.answer !== undefined) {
      if (isDeepStrictEqual(input.answer.value, value)) continue
      throw httpError('already_answered', {
        details: [{ pointer: childPointer('', key), message: 'has another answer already' }],
      })
    }
    if (isFinalStatus(task.status)) throw httpError('task_already_final')
    if (input.isTimedOut === true) throw httpError('input_timed_out')
    if (task.status !== 'input_required') {
      throw httpError(input.expiresAt > await core.engine.now() ? 'conflict' : 'input_timed_out')
    }
    details.push(...await faultsOf(core, task, { key, kind: input.kind, value }))
    next[key] = { ...input, answer: { value } }
  }
  if (details.length > 0) throw httpError('invalid_input', { details })
  if (isDeepStrictEqual(next, inputs)) return undefined
  if (JSON.stringify(next).length > MAX_INPUTS_LENGTH) throw httpError('body_too_large')
  return next
}

async function faultsOf(
  core: TaskCore, { name }: StoredTask,
  { key, kind, value }: { readonly key: string, readonly kind: string, readonly value: unknown },
): Promise<readonly ErrorDetail[]> {
  const schema = core.definition(name)?.asks?.[kind]
  // Another version of the application has asked.
  if (schema === undefined) throw httpError('service_unavailable', { headers: { 'retry-after': '5' } })
  const outcome = await judge(schema, structuredClone(value))
  if (!('details' in outcome)) return []
  return outcome.details.map(({ pointer, message }) => ({ pointer: childPointer('', key) + pointer, message }))
}
