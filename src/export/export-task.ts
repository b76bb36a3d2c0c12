import { createHash } from 'node:crypto'
import type { RecordSource } from '../ndjson/download.js'
import { NDJSON_TYPE } from '../http/headers/ndjson-types.js'
import { RecordText } from '../ndjson/record-text.js'
import { jsonSchemaOf, serialiser } from '../ndjson/serialiser.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { checkNames } from '../runtime/option-names.js'
import {
  flag, func, oneOf, readOptions, value, whole, type OptionTable,
} from '../runtime/options.js'
import type { DescribedSchema, Schema } from '../schema/schema.js'
import {
  REPEATABLE_ATTEMPTS, defineTask, type TaskDefinition, type TaskOptions, type TaskSettings,
} from '../tasks/definition/define.js'
import type { TaskContext } from '../tasks/definition/run-context.js'
import { checkFileName } from '../tasks/definition/file-content.js'
import {
  adoptParts, savedExport, writeParts, type SavedExport,
} from './export-parts.js'
import {
  CsvText, propertiesOf, type CsvDelimiter, type ExportColumn, type ExportText,
} from './export-text.js'
import { RecordCursor, RecordStart } from './record-cursor.js'

type ExportFormat = 'ndjson' | 'csv' | 'json'

/** The context of `records`, most of it a part of the context of `run`. */
interface RecordsContext<C = unknown>
  extends Pick<TaskContext<C>, 'taskId' | 'attempt' | 'owner' | 'tenant' | 'signal' | 'context'> {
  /**
   * Returns the number of records that earlier runs of the task have written, and promises that the
   * source begins after them. If it is not called before the first record, these records are read
   * again and skipped. 0 in the first run and without `partRecords`.
   */
  readonly from: () => number
}

/** Result of an export. The files are in the property `files` of the task. */
export interface ExportResult {
  /** A sentence for people. */
  readonly message: string
  /** Number of records. */
  readonly records: number
  /** Number of files. */
  readonly parts: number
}

/**
 * Options of `exportTask`, beside those of `defineTask`. `I` is the input of `records`, which is
 * the output of the schema; `T` a record; `C` the context of `records`; `In` the input of the
 * schema.
 */
export interface ExportTaskOptions<
  I, T extends object, C = unknown, In = I, N extends string = string,
> extends Omit<TaskSettings, 'files' | 'attempts'>,
  Pick<TaskOptions<I, ExportResult, C, In, unknown, N>, 'name' | 'input' | 'check' | 'external' | 'schedule'> {
  /**
   * Opens the source of the records, which is read only as fast as the files are written.
   *
   * With `partRecords`, a run that continues an earlier one needs the same records in the same
   * order.
   */
  readonly records: (input: I, context: RecordsContext<C>) => MaybePromise<RecordSource<T>>
  /**
   * Maximum number of runs. Default: 7.
   *
   * A pause (`backoff`) is between two runs.
   *
   * By default the pauses add up to 31 to 63 seconds. An error marked by `permanent()`, and an
   * `HttpError` below 500 (except 408, 425 and 429), end the attempts.
   */
  readonly attempts?: number
  /** Returns the number of records, for progress, if it is known. Default: not known. */
  readonly total?: (
    input: I, context: Omit<RecordsContext<C>, 'from'>,
  ) => MaybePromise<number | undefined>
  /** Format of the files. `json` is one array in each file. Default: 'ndjson'. */
  readonly format?: ExportFormat
  /**
   * Name of the files, without number and extension; or a function that returns the name of a part
   * (from 1) without extension. Default: the name of the task.
   */
  readonly fileName?: string | ((part: number) => string)
  /**
   * Maximum number of records of one file. The files are then numbered: `users-0001.ndjson`.
   * Default: no limit, and one file without a number.
   *
   * A later run continues after the finished files.
   */
  readonly partRecords?: number
  /**
   * Schema of a record, only for `ndjson` and `json`: a JSON Schema, or a Standard Schema that can
   * return its JSON Schema. A compiled serialiser leaves out other properties. Default:
   * `JSON.stringify`.
   */
  readonly schema?: Schema | Readonly<Record<string, unknown>>
  /** Columns, in order. Only for `csv`. Default: the properties of the first record. */
  readonly columns?: readonly (string | ExportColumn)[]
  /**
   * Only for `csv`. Writes `'` before a text that a spreadsheet would execute as a formula.
   * Default: true.
   *
   * Set it to `false` only if no user opens the file in such a program.
   *
   * Such a text begins with `=`, `+`, `-`, `@`, a tab or a line break, or has one of the first four
   * after a comma, a semicolon, a tab, a vertical bar or a line break. A text that is a negative
   * number, such as `-12.50`, stays as it is.
   */
  readonly escapeFormulas?: boolean
  /** Only for `csv`. Separates the cells: `,`, `;`, a tab or `|`. Default: ','. */
  readonly delimiter?: CsvDelimiter
  /** Only for `csv`. Begins each file with a byte order mark, so that Excel reads UTF-8. Default: false. */
  readonly bom?: boolean
}

const TYPES: Readonly<Record<ExportFormat, string>> = {
  ndjson: NDJSON_TYPE, csv: 'text/csv; charset=utf-8', json: 'application/json',
}

/** Schema of the result, which describes it in OpenAPI documents. */
const output: DescribedSchema<ExportResult> = {
  '~standard': {
    version: 1, vendor: 'longhaul', validate: (value) => ({ value: value as ExportResult }),
    jsonSchema: { input: resultSchema, output: resultSchema },
  },
}

function resultSchema(): Record<string, unknown> {
  const count = (description: string) => ({ type: 'integer', minimum: 0, description })
  return {
    title: 'Export result', type: 'object', required: ['message', 'records', 'parts'],
    properties: {
      message: { type: 'string', description: 'A sentence for people' },
      records: count('Number of records'), parts: count('Number of files'),
    },
  }
}

/** Options that `defineTask` checks. */
const ofTask = value()

const EXPORT = {
  name: ofTask, input: ofTask, check: ofTask, external: ofTask, timeoutMs: ofTask, attempts: ofTask,
  backoff: ofTask, retentionMs: ofTask, failedRetentionMs: ofTask, maxPerOwner: ofTask, shared: ofTask, partialFiles: ofTask,
  maxFileBytes: ofTask,
  maxRunningPerOwner: ofTask, version: ofTask, onFailed: ofTask, pool: ofTask, priority: ofTask, schedule: ofTask,
  records: func({ required: true }),
  total: func(),
  format: oneOf(['ndjson', 'csv', 'json'], { default: 'ndjson' }),
  fileName: value('a string or a function', (name) => (
    typeof name === 'string' || typeof name === 'function'
  )),
  partRecords: whole({ min: 1 }),
  schema: value('a schema'),
  columns: value('a list of columns'),
  escapeFormulas: flag({ default: true }),
  delimiter: oneOf([',', ';', '\t', '|'], { default: ',' }),
  bom: flag({ default: false }),
} satisfies OptionTable<ExportTaskOptions<never, object>>

/**
 * Defines a task that writes records as result files: NDJSON, CSV or JSON, in one file or in
 * numbered parts. Memory stays flat, however many records there are. The result is `{ message,
 * records, parts }`, and the status resource lists the files.
 * @example
 * import { exportTask } from 'longhaul/export'
 *
 * async function* users() {
 *   yield [{ id: 1, name: 'Ann' }, { id: 2, name: 'Bob' }]
 * }
 * const exportUsers = exportTask({
 *   name: 'export-users', format: 'csv', partRecords: 100_000, records: () => users(),
 * })
 * @throws {TypeError} An option is unknown, not valid, or of another format. `fileName` has an extension.
 */
export function exportTask<
  I = unknown, T extends object = object, C = unknown, In = I, N extends string = string,
>(options: ExportTaskOptions<I, T, C, In, N>): TaskDefinition<I, ExportResult, C, In, N> {
  const where = `exportTask(${JSON.stringify(options?.name)})`
  readOptions(where, options, EXPORT)
  const {
    records, total, format = 'ndjson', fileName: _, partRecords, schema, columns,
    escapeFormulas = true, delimiter = ',', bom = false, ...task
  } = options
  checkFormat(where, options)
  if (task.partialFiles && partRecords === undefined) {
    throw new TypeError(`${where}: partialFiles needs partRecords, because only finished files stay`)
  }
  checkFileName(namesOf(options)(1))
  if (columns !== undefined) checkColumns(where, columns)
  const jsonSchema = schema && jsonSchemaOf(where, schema)
  const stringify = serialiser<T>(jsonSchema)
  const nameOf = namesOf(options)
  const digest = digestOf({
    format, name: nameOf(1), partRecords, columns, escapeFormulas, delimiter, bom, jsonSchema,
  })
  const form = { digest, type: TYPES[format], nameOf, partRecords: partRecords ?? Infinity }

  const run = async (input: I, context: TaskContext<C, SavedExport>): Promise<ExportResult> => {
    const { progress, signal, checkpoint } = context
    const count = await total?.(input, context)
    const position = await adoptParts(context, form)
    const report = (done: number, of = count): void => { progress(done, of, undefined, 'records') }
    if (position.records > 0) report(position.records)
    const start = new RecordStart(position.records)
    const cursor = new RecordCursor(await records(input, { ...context, from: start.from }))
    try {
      await start.reach(cursor, signal)
      const found = format === 'csv' && columns === undefined
        ? (position.parts > 0 ? checkpoint.value?.columns : undefined) ?? await columnsOf(cursor)
        : undefined
      const csvColumns = (columns ?? found ?? []).map(toColumn)
      const textOf = (): ExportText<T> => (
        format === 'csv'
          ? new CsvText<T>({ columns: csvColumns, escapeFormulas, delimiter, bom })
          : new RecordText<T>(stringify, format === 'ndjson' ? 'lines' : 'array')
      )
      const settings = { ...form, textOf, onProgress: report, columns: found }
      const end = await writeParts(cursor, settings, context, position)
      report(end.records, end.records)
      return { message: messageOf(end.records), ...end }
    } finally {
      cursor.close()
    }
  }
  const definition = {
    ...task, files: true, run, output, attempts: task.attempts ?? REPEATABLE_ATTEMPTS,
    ...partRecords !== undefined && { checkpoint: savedExport(digest) },
  }
  // The compiler cannot know that `ExportResult` is its own JSON form.
  return defineTask(definition as unknown as TaskOptions<I, ExportResult, C, In, unknown, N, never>)
}

const FORMATS_OF = {
  columns: ['csv'], escapeFormulas: ['csv'], delimiter: ['csv'], bom: ['csv'], schema: ['ndjson', 'json'],
} satisfies Partial<Record<keyof ExportTaskOptions<never, object>, ExportFormat[]>>

function checkFormat(
  where: string,
  { format = 'ndjson', fileName, ...options }: Pick<
    ExportTaskOptions<never, object>, 'format' | 'fileName' | keyof typeof FORMATS_OF
  >,
): void {
  for (const [option, formats] of Object.entries(FORMATS_OF)) {
    const isGiven = options[option as keyof typeof FORMATS_OF] !== undefined
    if (!isGiven || (formats as ExportFormat[]).includes(format)) continue
    throw new TypeError(`${where}: ${option} has no effect on ${format}; it is for ${formats.join(' and ')}`)
  }
  const name = typeof fileName === 'function' ? fileName(1) : fileName
  if (name?.endsWith?.(`.${format}`) === true) {
    throw new TypeError(`${where}: fileName must have no extension, because .${format} is added`)
  }
}

const COLUMN = { key: 0, header: 0 } satisfies Record<keyof ExportColumn, 0>
const MAX_COLUMNS = 10_000
const MAX_COLUMN_LENGTH = 1024

function checkColumns(where: string, columns: unknown): void {
  if (!Array.isArray(columns) || columns.length === 0 || columns.length > MAX_COLUMNS) {
    throw new TypeError(`${where}: columns must be a list of 1 to ${MAX_COLUMNS} columns`)
  }
  columns.forEach((column: unknown, index) => {
    if (typeof column !== 'string') checkNames(`${where}: columns[${index}]`, column, COLUMN)
    const { key, header = '' } = toColumn(column as string | ExportColumn)
    const isValid = [key, header].every((text) => (
      typeof text === 'string' && text.length <= MAX_COLUMN_LENGTH
    ))
    if (isValid && key !== '') return
    throw new TypeError(`${where}: columns[${index}] must be the name of a property, or`
      + ` { key, header }, with texts of at most ${MAX_COLUMN_LENGTH} characters`)
  })
}

/**
 * Returns the function that names the files, such as `users.csv`, or `users-0001.csv` for a part.
 */
function namesOf(
  { name, fileName = name, format = 'ndjson', partRecords }: Pick<
    ExportTaskOptions<never, object>, 'name' | 'fileName' | 'format' | 'partRecords'
  >,
): (part: number) => string {
  if (typeof fileName === 'function') return (part) => `${fileName(part)}.${format}`
  if (partRecords === undefined) return () => `${fileName}.${format}`
  return (part) => `${fileName}-${String(part).padStart(4, '0')}.${format}`
}

async function columnsOf(cursor: RecordCursor<object>): Promise<readonly string[]> {
  const first = await cursor.peek()
  return first === undefined ? [] : propertiesOf(first)
}

function toColumn(column: string | { readonly key: string, readonly header?: string }) {
  return typeof column === 'string' ? { key: column } : column
}

/** Returns a digest of options. Parts of runs with equal digests fit together. */
function digestOf(options: object): string {
  return createHash('sha256').update(JSON.stringify(options)).digest('base64url')
}

function messageOf(records: number): string {
  return records === 1 ? 'Exported 1 record.' : `Exported ${records} records.`
}
