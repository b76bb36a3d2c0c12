import { createHash, randomUUID } from 'node:crypto'
import { UNDECLARED, checkpointText } from '../tasks/definition/json-values.js'
import type { AnyTaskDefinition, ContextOf } from '../tasks/definition/define.js'
import { readOptions, text, value, whole, type OptionTable } from '../runtime/options.js'
import { digestHeader } from '../http/headers/digests.js'
import { fileBytes, fileTypeOf, NO_FILES } from '../tasks/definition/file-content.js'
import type { AnyQuestion, TaskFiles } from '../tasks/definition/run-context.js'
import { checkedQuestion, NO_ASK } from '../tasks/definition/asks.js'
import { validInput } from '../schema/schema.js'
import type { TaskFile } from '../wire/task.js'

type RunContextOf<D extends AnyTaskDefinition> = Parameters<D['run']>[1]

/** Options of `testContext`. */
export interface TestContextOptions<D extends AnyTaskDefinition = AnyTaskDefinition> {
  /** Id of the task. @default 'test' */
  readonly taskId?: string | undefined
  /** Number of the attempt, from 1. @default 1 */
  readonly attempt?: number
  /** Owner of the task. Default: none. */
  readonly owner?: string | undefined
  /** Tenant of the owner. Default: none. */
  readonly tenant?: string | undefined
  /** Name of its external resource. Default: a new one, if the definition has `external`. */
  readonly external?: string | undefined
  /** The `context` that `run` receives. Required if `run` declares a context. Default: none. */
  readonly context?: RunContextOf<D>['context']
  /** Answers that `ask` returns, by the keys of the questions. Default: none. */
  readonly answers?: Readonly<Record<string, unknown>>
  /** Checkpoint of an earlier run. Default: none. */
  readonly checkpoint?: RunContextOf<D>['checkpoint']['value']
}

/** The options of `testContext`. They are required, with `context`, if the definition needs one. */
export type TestContextArguments<D extends AnyTaskDefinition> =
  unknown extends ContextOf<D> ? [options?: TestContextOptions<D>]
    : [options: TestContextOptions<D> & { readonly context: ContextOf<D> }]

/** One call of `progress`. */
export interface ProgressReport {
  readonly done: number
  readonly total: number | undefined
  readonly message: string | undefined
  readonly unit?: string
}

/** One call of `ask`. */
export interface AskedQuestion extends AnyQuestion {
  readonly key: string
}

/** A context that records what `run` reports, and that a test can abort. */
export type TestContext<D extends AnyTaskDefinition = AnyTaskDefinition> = RunContextOf<D> & {
  /** The calls of `progress` so far, oldest first. */
  readonly reports: readonly ProgressReport[]
  /** The lines of `log` so far, oldest first. */
  readonly logged: readonly string[]
  /** The files that `run` has written, in the order in which they were completed. */
  readonly written: readonly TestFile[]
  /**
   * The values that `checkpoint.save` has received so far, oldest first, as a later run reads them.
   */
  readonly saved: readonly unknown[]
  /** The questions that `run` has asked so far, oldest first. */
  readonly asked: readonly AskedQuestion[]
  /** Aborts `signal`, as a cancelled task does. */
  readonly abort: (reason?: unknown) => void
}

const OPTIONS = {
  taskId: text(), attempt: whole({ min: 1, default: 1 }), owner: text(), tenant: text(), external: text(),
  context: value(), checkpoint: value(), answers: value(),
} satisfies OptionTable<TestContextOptions>

/**
 * Creates the second argument for `run` of a definition, so that a test can call `run`. `files` and
 * `checkpoint` throw the errors that they throw in a run of a task.
 *
 * @example
 * const context = testContext(report, { attempt: 2 })
 * await report.run({ year: 2025 }, context)
 * context.reports // [{ done: 1, total: 12, message: undefined }, …]
 *
 * @throws {TypeError} `definition` is no definition, or an option is unknown or not valid.
 */
export function testContext<D extends AnyTaskDefinition>(
  definition: D, ...[options = {}]: TestContextArguments<D>
): TestContext<D> {
  const { attempt, owner, tenant, external, context, answers = {} } = readOptions('testContext', options, OPTIONS)
  const { name, attempts } = definition
  if (typeof attempts !== 'number') throw new TypeError('testContext: pass what defineTask made')
  if (attempt > attempts) {
    throw new TypeError(
      `testContext: attempt must be from 1 to ${attempts}, the attempts of ${name}`,
    )
  }
  const controller = new AbortController()
  const reports: ProgressReport[] = []
  const logged: string[] = []
  const files = new TestFiles(controller.signal)
  const saved: unknown[] = []
  const asked: AskedQuestion[] = []
  const taskId = 'taskId' in options ? options.taskId : 'test'
  const made: TestContext = {
    taskId, attempt, lastAttempt: attempt === attempts, owner, tenant,
    workId: taskId === undefined ? undefined : `${taskId}.${attempt}.test`,
    external: external ?? (definition.external && randomUUID()), context,
    signal: controller.signal,
    progress: (done, total, message, unit) => { reports.push({ done, total, message, ...unit !== undefined && { unit } }) },
    log: (line) => { logged.push(line) },
    checkpoint: {
      value: options.checkpoint,
      async save(value) {
        if (definition.checkpoint === undefined) return UNDECLARED.save(value)
        saved.push(JSON.parse(checkpointText(name, value)))
        return controller.signal.throwIfAborted()
      },
    },
    files: definition.files === true ? files : NO_FILES,
    ask: definition.asks === undefined ? NO_ASK : async (key: string, question: AnyQuestion) => {
      const { answers: schema } = checkedQuestion(definition, key, question)
      asked.push({ key, ...question })
      if (!Object.hasOwn(answers, key)) {
        throw new Error(`testContext: run asks ${key}; pass an answer in the option answers`)
      }
      return await validInput(schema, JSON.parse(JSON.stringify(answers[key]))) as never
    },
    reports, logged, asked, saved, written: files.written,
    abort: (reason) => { controller.abort(reason) },
  }
  return made
}

/** A file that `run` has written in a test. */
export interface TestFile extends TaskFile {
  /** The content, decoded as UTF-8. */
  readonly text: string
  readonly bytes: Uint8Array
}

export class TestFiles implements TaskFiles {
  readonly written: TestFile[] = []
  private readonly names = new Set<string>()

  constructor(private readonly signal: AbortSignal) {}

  readonly write: TaskFiles['write'] = async (name, content, options = {}) => {
    const type = fileTypeOf(name, options)
    if (this.names.has(name)) throw new TypeError(`files.write: this run has written ${name} before`)
    this.names.add(name)
    const chunks: Uint8Array[] = []
    for await (const chunk of fileBytes(content)) {
      this.signal.throwIfAborted()
      chunks.push(Uint8Array.from(chunk))
    }
    const bytes = Buffer.concat(chunks)
    const digest = digestHeader({ 'sha-256': createHash('sha256').update(bytes).digest('base64') })
    const file = { name, size: bytes.byteLength, type, digest }
    this.written.push({ ...file, text: bytes.toString(), bytes })
    return file
  }
}
