import { createHash } from 'node:crypto'
import { NDJSON_TYPE } from '../ndjson/media-type.js'
import { jsonSchemaOf, serialiser } from '../ndjson/serialiser.js'
import { checkNames } from '../runtime/option-names.js'
import { REPEATABLE_ATTEMPTS, defineTask, type TaskDefinition, type TaskOptions } from '../tasks/definition/define.js'
import type { TaskContext } from '../tasks/definition/run-context.js'
import { checkFileName } from '../tasks/definition/file-content.js'
import { CsvText, type ExportColumn } from './csv-text.js'
import { JsonText, type ExportText } from './export-text.js'
import type { ExportFormat, ExportResult, ExportTaskOptions } from './options.js'
import { PartsCheckpoint, type PartsForm } from './parts-checkpoint.js'
import { RecordCursor } from './record-cursor.js'
import { RecordStart } from './record-start.js'
import { savedExport, type SavedExport } from './saved-export.js'
import { writeParts } from './write-parts.js'

const TYPES: Readonly<Record<ExportFormat, string>> = {
  ndjson: NDJSON_TYPE, csv: 'text/csv; charset=utf-8', json: 'application/json',
}

const KNOWN = {
  name: 0, input: 0, check: 0, external: 0, timeoutMs: 0, attempts: 0, backoff: 0, retentionMs: 0,
  maxPerOwner: 0, shared: 0, maxFileBytes: 0, version: 0, pool: 0, priority: 0,
  records: 0, total: 0, format: 0, fileName: 0, partRecords: 0, schema: 0, columns: 0,
  escapeFormulas: 0,
} satisfies Record<keyof ExportTaskOptions<never, object>, 0>

/**
 * Defines a task that writes records as result files: NDJSON, CSV or JSON, in one file or in
 * numbered parts. Memory stays flat, however many records there are.
 *
 * The result is `{ message, records, parts }`, and the status resource lists the files. With
 * `partRecords`, a run that follows a failure keeps the finished parts and continues after them.
 *
 * @example
 * import { exportTask } from 'longhaul/export'
 *
 * async function* users() {
 *   yield [{ id: 1, name: 'Ann' }, { id: 2, name: 'Bob' }]
 * }
 * const exportUsers = exportTask({
 *   name: 'export-users', format: 'csv', partRecords: 100_000, records: () => users(),
 * })
 *
 * @throws {TypeError} An option is unknown or not valid.
 */
export function exportTask<
  I = unknown, T extends object = object, C = unknown, In = I, N extends string = string,
>(options: ExportTaskOptions<I, T, C, In, N>): TaskDefinition<I, ExportResult, C, In, N> {
  const where = `exportTask(${JSON.stringify(options?.name)})`
  checkNames(where, options, KNOWN)
  const {
    records, total, format = 'ndjson', fileName: _, partRecords, schema, columns,
    escapeFormulas = true, ...task
  } = options
  checkOptions(where, options)
  const jsonSchema = schema && jsonSchemaOf(where, schema)
  const stringify = serialiser<T>(jsonSchema)
  const nameOf = namesOf(options)
  const settings = digestOf({
    format, name: nameOf(1), partRecords, columns, escapeFormulas, jsonSchema,
  })
  const form: PartsForm = { settings, type: TYPES[format], nameOf }

  const run = async (input: I, context: TaskContext<C, SavedExport>): Promise<ExportResult> => {
    const { files, progress, signal } = context
    const count = await total?.(input, context)
    const saving = partRecords === undefined ? undefined : PartsCheckpoint.of(context, form)
    const position = await saving?.resume() ?? { parts: 0, records: 0 }
    if (position.records > 0) progress(position.records, count)
    const start = new RecordStart(position.records)
    const cursor = new RecordCursor(await records(input, { ...context, from: start.from }))
    try {
      await start.reach(cursor, signal)
      const found = format === 'csv' && columns === undefined
        ? saving?.columns ?? await columnsOf(cursor)
        : undefined
      const csvColumns = (columns ?? found ?? []).map(toColumn)
      const textOf = (): ExportText<T> => (
        format === 'csv'
          ? new CsvText<T>({ columns: csvColumns, escapeFormulas })
          : new JsonText<T>(stringify, format === 'ndjson' ? 'lines' : 'array')
      )
      const end = await writeParts(cursor, {
        ...form, files, textOf, partRecords: partRecords ?? Infinity,
        onProgress: (done) => { progress(done, count) },
        onPart: async (done) => { await saving?.save(done, found) },
      }, position)
      return { message: messageOf(end.records), ...end }
    } finally {
      cursor.close()
    }
  }
  const definition = {
    ...task, files: true, run, attempts: task.attempts ?? REPEATABLE_ATTEMPTS,
    ...partRecords !== undefined && { checkpoint: savedExport(settings) },
  }
  // The compiler cannot know that `ExportResult` is its own JSON form.
  return defineTask(definition as unknown as TaskOptions<I, ExportResult, C, In, unknown, N, never>)
}

/** The options that are checked here, whatever their types are. */
interface CheckedOptions
  extends Pick<ExportTaskOptions<never, object>, 'name' | 'format' | 'fileName' | 'partRecords'> {
  readonly records: unknown
  readonly columns?: unknown
}

function checkOptions(where: string, options: CheckedOptions): void {
  const { records, format, partRecords } = options
  if (typeof records !== 'function') {
    throw new TypeError(`${where}: records must be a function that returns an iterable`)
  }
  if (format !== undefined && !Object.hasOwn(TYPES, format)) {
    throw new TypeError(`${where}: format must be ndjson, csv or json`)
  }
  if (partRecords !== undefined && !(Number.isInteger(partRecords) && partRecords > 0)) {
    throw new TypeError(`${where}: partRecords must be a whole number from 1`)
  }
  checkFileName(namesOf(options)(1))
  if (options.columns !== undefined) checkColumns(where, options.columns)
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
    throw new TypeError(`${where}: columns[${index}] must be the name of a member, or`
      + ` { key, header }, with texts of at most ${MAX_COLUMN_LENGTH} characters`)
  })
}

/**
 * Returns the function that names the files: `users.csv`, or `users-0001.csv` for a part, or what
 * `fileName` returns for it.
 */
function namesOf(
  { name, fileName = name, format = 'ndjson', partRecords }: Omit<CheckedOptions, 'records'>,
): (part: number) => string {
  if (typeof fileName === 'function') return (part) => `${fileName(part)}.${format}`
  if (partRecords === undefined) return () => `${fileName}.${format}`
  return (part) => `${fileName}-${String(part).padStart(4, '0')}.${format}`
}

/** Returns the names of the members of the first record. */
async function columnsOf(cursor: RecordCursor<object>): Promise<readonly string[]> {
  const first = await cursor.peek()
  return first === undefined ? [] : Object.keys(first)
}

function toColumn(column: string | { readonly key: string, readonly header?: string }) {
  return typeof column === 'string' ? { key: column } : column
}

/** Returns a digest of options. Options of the same digest make parts that fit together. */
function digestOf(options: object): string {
  return createHash('sha256').update(JSON.stringify(options)).digest('base64url')
}

function messageOf(records: number): string {
  return records === 1 ? 'Exported 1 record.' : `Exported ${records} records.`
}
