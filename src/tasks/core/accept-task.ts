import { types } from 'node:util'
import type { TaskEngine, Transaction } from '../../engine/engine.js'
import { httpError } from '../../http/errors.js'
import type { CallerLimit, Created, NewTask, StoredTask, Unique } from '../../engine/task.js'
import { PRIORITY, type AnyTaskDefinition } from '../definition/define.js'
import { digestOf } from '../../idempotency/key.js'
import { Json } from '../../runtime/json.js'
import { after, isPending, type MaybePromise } from '../../runtime/maybe-promise.js'
import { newId } from '../../runtime/random-id.js'
import { checkedNames } from '../definition/external-resource.js'
import type { TraceHeaders } from '../definition/tracing.js'
import { noCallbacks, type TaskCore } from './task-core.js'
import { releaseExternal, renewExternal } from '../record/outside.js'
import { queueFull, shuttingDown, tooManyTasks } from '../run/failure.js'
import { validInput } from '../../schema/schema.js'
import { publishAccepted, taskChannel } from '../record/diagnostics.js'
import { detailsOf, externalNames, isTaskId, type Details } from '../record/details.js'
import { LONGEST_MS } from '../../runtime/options.js'
import { isName, NAME_RULE } from '../../runtime/names.js'

/** Options of one task that is submitted. */
export interface SubmitOptions extends OwnedSubmitOptions {
  /**
   * The id of the owner, a non-empty string.
   *
   * Leave it out for your own task, which no `maxPerOwner` counts. For a client who may be
   * anonymous, use `tasks.ownedBy(user?.id).submit(…)`.
   */
  readonly owner?: string
  /**
   * Id of the tenant of the task, which limits and turns count in place of the owner. Default:
   * none.
   *
   * Without an owner, no client sees the task.
   */
  readonly tenant?: string | undefined
}

/** Options of one task whose owner is known. */
export interface OwnedSubmitOptions {
  /** Your own id: 1 to 128 of `A-Z a-z 0-9 . _ -`. The same id starts no second task. */
  readonly id?: string | undefined
  /** Delay before the first run, in milliseconds, up to 100 years. Default 0. */
  readonly delayMs?: number | undefined
  /** Earliest start of the first run, by the clock of the engine, instead of `delayMs`. Default: now. */
  readonly startAt?: Date | undefined
  /** Order in its pool: 0 to 1,000,000, lowest first. Default: that of the definition. */
  readonly priority?: number | undefined
  /** Passed to `run` as `context`. Stored as JSON, of at most 65 536 characters. */
  readonly context?: unknown
  /** URL that gets a signed POST once the task has ended. Requires `callbacks` of `createTasks`. */
  readonly callbackUrl?: string | undefined
  /**
   * An open transaction of yours, such as a client of `pg` after `BEGIN`, with which the task
   * commits. Requires `postgres()` on the same database. Default: none.
   */
  readonly transaction?: Transaction | undefined
  /**
   * Your business key, such as `invoice-42`: 1 to 512 characters. At most one unfinished task of a
   * definition and owner has it. Default: none.
   *
   * A finished task has given it up, even if it is retried.
   */
  readonly unique?: string | undefined
  /**
   * Outcome if an unfinished task has the key `unique`. `return`: that task is returned. `replace`:
   * if it has never begun, it also gets the input, context, start and priority of this call.
   * Default `return`.
   *
   * `created` is `false`, and `replaced` is `true` if the task got them.
   *
   * If the task has begun, it is returned unchanged. With `replace` and `delayMs`, a burst of calls
   * becomes one run with the last input.
   */
  readonly ifExists?: 'return' | 'replace' | undefined
}

export const OWNED_SUBMIT = {
  id: 0, delayMs: 0, startAt: 0, priority: 0, context: 0, callbackUrl: 0, transaction: 0, unique: 0,
  ifExists: 0,
} satisfies Record<keyof OwnedSubmitOptions, 0>

export const SUBMIT = { ...OWNED_SUBMIT, owner: 0, tenant: 0 } satisfies Record<keyof SubmitOptions, 0>

/** Limit of requests for kinds without `maxPerOwner`, together. */
const REQUEST_LIMIT: CallerLimit = { group: '', max: 100 }
const MAX_CONTEXT_LENGTH = 65_536

/** Work that is submitted, from which a new task is created. Its input is valid. */
export interface Submission extends Omit<OwnedSubmitOptions, 'startAt' | 'delayMs'> {
  readonly definition: AnyTaskDefinition
  readonly input: unknown
  /** The input as JSON. Default: it is made from `input`. */
  readonly json?: Json | undefined
  /** Birth of the task. Default: a new random string. */
  readonly birth?: string | undefined
  /** As it is stored: see `storedOwner`. */
  readonly owner: string | undefined
  /** Caller that limits count; `undefined` for a task of the application itself. */
  readonly caller: string | undefined
  /** `true` for a request over HTTP, for which `maxPerOwner` has a default. */
  readonly isRequest?: boolean | undefined
  /** `true` for a request that `operatorEndpoints` has admitted. */
  readonly byOperator?: boolean | undefined
  /** `true` if the response is the result, not a 202. */
  readonly isDirect?: boolean | undefined
  readonly idempotency?: RequestKey | undefined
}

/** The Idempotency-Key of a request. */
export interface RequestKey {
  /** The key in its scope. */
  readonly key: string
  /** Digest of the request. */
  readonly fingerprint: string
  /**
   * `true` for an endpoint that can also work without a task, so that the store may have a claim.
   */
  readonly isShared: boolean
}

/** A submission that has a task. */
export interface AcceptedTask {
  readonly task: StoredTask
  /** `false` if a task with this id or key existed. */
  readonly created: boolean
  /** `true` if the existing task with this business key got the work of the new task. */
  readonly replaced: boolean
}

/** Throws unless the schema and `check` of a definition accept the input. */
export function checkInput(definition: AnyTaskDefinition, input: unknown): MaybePromise<unknown> {
  const valid = definition.input ? validInput(definition.input, input) : input
  return definition.check ? after(valid, (checked) => definition.check?.(checked)) : valid
}

/** Validates input and callback URL, then accepts the task. See `Tasks.submit` for errors. */
export async function submitTask(
  core: TaskCore, definition: AnyTaskDefinition, input: unknown,
  options: OwnedSubmitOptions & Pick<Submission, 'owner' | 'caller' | 'isRequest'>,
): Promise<AcceptedTask> {
  // A copy, so that later changes by the application have no effect. What does not survive JSON shows
  // at once.
  const text = JSON.stringify(input) as string | undefined
  if (text !== undefined && Buffer.byteLength(text) > core.settings.maxInputBytes) {
    throw httpError('body_too_large')
  }
  const copy: unknown = text === undefined ? undefined : JSON.parse(text)
  core.mustHave(definition)
  await checkInput(definition, copy)
  const { callbackUrl, owner, startAt, delayMs, ...others } = options
  if (callbackUrl !== undefined) await core.checkCallback(callbackUrl, owner)
  const start = await startOf(core.engine, { startAt, delayMs })
  const json = text === undefined ? undefined : Json.of(copy, text)
  return acceptTask(core, { ...others, definition, input: copy, json, owner, callbackUrl }, start)
}

/** Accepts one task whose input is valid, by one call of the engine. */
export function acceptTask(
  core: TaskCore, submission: Submission, start?: Start,
): MaybePromise<AcceptedTask> {
  const { callbacks, tracing } = core.settings
  if (submission.callbackUrl !== undefined && !callbacks) throw noCallbacks()
  if (tracing === undefined) return create(core, submission, start, undefined)
  return tracing.accept(submission.definition.name, (trace) => create(core, submission, start, trace))
}

function create(
  core: TaskCore, submission: Submission, start: Start | undefined, trace: TraceHeaders | undefined,
): MaybePromise<AcceptedTask> {
  const { definition, transaction, caller, byOperator } = submission
  // What acts on the tasks of all owners is for operators and the application, even if a client knows its name.
  if (definition.runForOperators !== undefined && caller !== undefined && byOperator !== true) {
    throw httpError('unknown_task')
  }
  const task = newTask(core, submission, start, trace)
  const { external }: Details = task.details
  if (external !== undefined) return createWithExternal(core, submission, start, task)
  if (core.isClosing) throw shuttingDown()
  const created = core.engine.create(task, transaction === undefined ? undefined : { transaction })
  return isPending(created)
    ? created.then((late) => toAccepted(late, task, submission)) : toAccepted(created, task, submission)
}

/** Creates a task that has external resources. Releases them if no task will use them. */
async function createWithExternal(
  core: TaskCore, submission: Submission, start: Start | undefined, task: NewTask,
): Promise<AcceptedTask> {
  const { definition, transaction } = submission
  const names = externalNames(task.details)
  if (start !== undefined) await renewForLater(core, definition, names, start)
  if (core.isClosing) throw shuttingDown()
  const created = await core.engine.create(task, transaction === undefined ? undefined : { transaction })
  if (created.outcome === 'full') await releaseExternal(core.context, definition, { names })
  const accepted = toAccepted(created, task, submission)
  if (created.outcome === 'exists') {
    const owned = new Set(externalNames(detailsOf(accepted.task)))
    await releaseExternal(core.context, definition, { names: names.filter((name) => !owned.has(name)) })
  }
  return accepted
}

/** Throws for a task that was not created, unless the existing one is the same. */
function toAccepted(created: Created, task: NewTask, submission: Submission): AcceptedTask {
  if (created.outcome === 'caller_full') throw tooManyTasks()
  if (created.outcome === 'full') throw queueFull()
  const { outcome, task: stored } = created
  if (outcome === 'exists') checkSame(stored, task, submission)
  const isNew = outcome === 'created'
  if (isNew && taskChannel.hasSubscribers && !submission.transaction) publishAccepted(stored)
  return { task: stored, created: isNew, replaced: outcome === 'replaced' }
}

const NO_DETAILS: Details = {}

export function newTask(
  { settings: { pendingMs } }: TaskCore, submission: Submission, start: Start | undefined,
  trace: TraceHeaders | undefined,
): NewTask {
  const {
    definition, input, json, owner, caller, priority, context, callbackUrl, isDirect, idempotency,
    transaction, unique, ifExists,
  } = submission
  if (submission.id !== undefined && !isTaskId(submission.id)) {
    throw new TypeError('id must be 1 to 128 of A-Z a-z 0-9 . _ - and not begin with a dot')
  }
  if (priority !== undefined && !PRIORITY.accepts(priority)) {
    throw new TypeError(`priority must be ${PRIORITY.expects}, not ${String(priority)}`)
  }
  if (context !== undefined) checkContext(context)
  const { name, files, pool } = definition
  const names = definition.external && checkedNames(definition.external.of(input))
  const external = names?.[0]
  const hasDetails = context !== undefined || callbackUrl !== undefined || trace !== undefined
    || idempotency !== undefined || transaction !== undefined || external !== undefined
  const madeId = newId()
  return {
    id: submission.id ?? madeId, birth: submission.birth ?? madeId,
    key: idempotency?.key, owner, caller, limit: limitOf(definition, submission),
    name, pool, priority: priority ?? definition.priority,
    input: json ?? Json.of(input),
    details: hasDetails ? {
      fingerprint: idempotency?.fingerprint,
      isDirect: idempotency !== undefined && isDirect === true ? true : undefined,
      isKeyShared: idempotency?.isShared === true ? true : undefined,
      isTransactional: transaction === undefined ? undefined : true,
      context, external, moreExternal: names && names.length > 1 ? names.slice(1) : undefined, trace,
      callback: callbackUrl === undefined
        ? undefined : { url: callbackUrl, state: 'waiting', attempts: 0 },
    } satisfies Details : NO_DETAILS,
    start: start && { at: start.at },
    keepMs: pendingMs,
    hasFiles: external !== undefined || files === true,
    unique: unique === undefined && ifExists === undefined ? undefined : uniqueOf(submission),
  }
}

/** Returns the business key in its scope: the definition and the owner. */
function uniqueOf(
  { definition: { name, external }, owner, unique, ifExists = 'return' }: Submission,
): Unique | undefined {
  if (unique === undefined && ifExists === 'return') return undefined
  if (!isName(unique)) throw new TypeError(`unique must be ${NAME_RULE}; ifExists needs it`)
  if (ifExists !== 'return' && ifExists !== 'replace') {
    throw new TypeError(`ifExists must be 'return' or 'replace', not ${String(ifExists)}`)
  }
  if (ifExists === 'replace' && external !== undefined) {
    throw new TypeError(`ifExists must be 'return' for ${name}, because its tasks have an external resource`)
  }
  return { key: digestOf(JSON.stringify([name, owner ?? null, unique])), ifExists }
}

/** Kinds with `maxPerOwner` have a group each. The requests for all other kinds share one group. */
export function limitOf(
  { name, maxPerOwner }: Pick<AnyTaskDefinition, 'name' | 'maxPerOwner'>,
  { caller, isRequest = false }: Pick<Submission, 'caller' | 'isRequest'>,
): CallerLimit | undefined {
  if (caller === undefined || maxPerOwner === Infinity) return undefined
  if (maxPerOwner !== undefined) return { group: name, max: maxPerOwner }
  return isRequest ? REQUEST_LIMIT : undefined
}

async function renewForLater(
  core: TaskCore, definition: AnyTaskDefinition, names: readonly string[], start: Start,
): Promise<void> {
  const ttlMs = start.delayMs + core.settings.pendingMs + core.longestRetentionMs(definition.name)
  if (!await renewExternal(core.context, definition, { names }, ttlMs)) {
    throw httpError('gone', { message: 'The input of this task is no longer stored.' })
  }
}

/** Throws unless an existing task is the one that is submitted. */
function checkSame(existing: StoredTask, { name, key, owner }: NewTask, { idempotency }: Submission): void {
  if (key !== undefined && existing.key === key) {
    if (detailsOf(existing).fingerprint === idempotency?.fingerprint) return
    throw httpError('idempotency_key_reused')
  }
  if (existing.owner === owner && existing.name === name) return
  throw httpError('conflict', { message: 'This id belongs to another task.' })
}

function checkContext(context: unknown): void {
  const { length } = (JSON.stringify(context) as string | undefined) ?? ''
  if (length <= MAX_CONTEXT_LENGTH) return
  throw new TypeError(`context has ${length} characters as JSON, and may have ${MAX_CONTEXT_LENGTH}:`
    + ' pass an id, and let run load the rest')
}

export interface Start {
  /** Milliseconds since 1970. */
  readonly at: number
  readonly delayMs: number
}

/** Returns the start that the options ask for; `undefined` for now. */
export async function startOf(
  engine: TaskEngine, { startAt, delayMs }: Pick<OwnedSubmitOptions, 'startAt' | 'delayMs'>,
): Promise<Start | undefined> {
  if (startAt === undefined && (delayMs ?? 0) === 0) return undefined
  if (startAt !== undefined && delayMs !== undefined) {
    throw new TypeError('pass startAt or delayMs, not both')
  }
  if (startAt !== undefined && !(types.isDate(startAt) && !Number.isNaN(startAt.getTime()))) {
    throw new TypeError('startAt must be a valid Date')
  }
  const now = await engine.now()
  const at = startAt?.getTime() ?? now + Math.ceil(delayMs ?? 0)
  const start = { at, delayMs: delayMs ?? at - now }
  if (delayMs === undefined && start.delayMs <= 0) return undefined
  if (start.delayMs >= 0 && start.delayMs <= LONGEST_MS) return start
  throw new TypeError('delayMs must be from 0 to 100 years, and startAt less than 100 years ahead')
}
