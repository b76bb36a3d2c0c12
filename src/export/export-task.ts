import { NDJSON_TYPE } from '../ndjson/media-type.js'
import { jsonSchemaOf, serialiser } from '../ndjson/serialiser.js'
import { checkNames } from '../runtime/option-names.js'
import {
  defineTask, type TaskContext, type TaskDefinition, type TaskOptions,
} from '../tasks/definition/define.js'
import { checkFileName } from '../tasks/definition/file-name.js'
import { CsvText } from './csv-text.js'
import { JsonText, type ExportText } from './export-text.js'
import type { ExportFormat, ExportResult, ExportTaskOptions } from './options.js'
import { RecordCursor } from './record-cursor.js'
import { writeParts } from './write-parts.js'

const TYPES: Readonly<Record<ExportFormat, string>> = {
  ndjson: NDJSON_TYPE, csv: 'text/csv; charset=utf-8', json: 'application/json',
}

const KNOWN = {
  name: 0, input: 0, check: 0, keeps: 0, timeoutMs: 0, attempts: 0, backoff: 0, retentionMs: 0,
  maxPerOwner: 0, shared: 0, maxFileBytes: 0, version: 0, pool: 0, priority: 0,
  records: 0, total: 0, format: 0, fileName: 0, partRecords: 0, schema: 0, columns: 0,
  escapeFormulas: 0,
} satisfies Record<keyof ExportTaskOptions<never, object>, 0>

/**
 * Defines a task that writes records as result files: NDJSON, CSV or JSON, in one file or in
 * numbered parts. Memory stays flat, however many records there are.
 *
 * The result is `{ message, records, parts }`, and the status resource lists the files. A run that
 * follows a failure writes all files again.
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
    records, total, format = 'ndjson', fileName, partRecords, schema, columns,
    escapeFormulas = true, ...task
  } = options
  checkOptions(where, options)
  const base = fileName ?? task.name
  const stringify = serialiser<T>(schema && jsonSchemaOf(where, schema))

  const run = async (input: I, context: TaskContext<C>): Promise<ExportResult> => {
    const { files, progress } = context
    const count = await total?.(input, context)
    const cursor = new RecordCursor(await records(input, context))
    try {
      const csvColumns = columns ?? await columnsOf(cursor)
      const textOf = (): ExportText<T> => (
        format === 'csv'
          ? new CsvText<T>({ columns: csvColumns.map(toColumn), escapeFormulas })
          : new JsonText<T>(stringify, format === 'ndjson' ? 'lines' : 'array')
      )
      const end = await writeParts(cursor, {
        files, textOf, type: TYPES[format], partRecords: partRecords ?? Infinity,
        nameOf: (part) => partName(base, format, partRecords === undefined ? undefined : part),
        onProgress: (done) => { progress(done, count) },
      })
      return { message: messageOf(end.records), ...end }
    } finally {
      cursor.close()
    }
  }
  // The compiler cannot know that `ExportResult` is its own JSON form.
  const definition = { ...task, files: true, run } as TaskOptions<
    I, ExportResult, C, In, unknown, N, never
  >
  return defineTask(definition)
}

/** The options that are checked here, whatever their types are. */
interface CheckedOptions
  extends Pick<ExportTaskOptions<never, object>, 'name' | 'format' | 'fileName' | 'partRecords'> {
  readonly records: unknown
}

function checkOptions(
  where: string, { records, format, name, fileName, partRecords }: CheckedOptions,
): void {
  if (typeof records !== 'function') {
    throw new TypeError(`${where}: records must be a function that returns an iterable`)
  }
  if (format !== undefined && !Object.hasOwn(TYPES, format)) {
    throw new TypeError(`${where}: format must be ndjson, csv or json`)
  }
  if (partRecords !== undefined && !(Number.isInteger(partRecords) && partRecords > 0)) {
    throw new TypeError(`${where}: partRecords must be a whole number from 1`)
  }
  checkFileName(partName(fileName ?? name, format ?? 'ndjson', 1))
}

/** Returns `users.csv`, or `users-0001.csv` for a part. */
function partName(base: string, format: ExportFormat, part: number | undefined): string {
  return part === undefined
    ? `${base}.${format}`
    : `${base}-${String(part).padStart(4, '0')}.${format}`
}

/** Returns the names of the members of the first record. */
async function columnsOf(cursor: RecordCursor<object>): Promise<readonly string[]> {
  const first = await cursor.peek()
  return first === undefined ? [] : Object.keys(first)
}

function toColumn(column: string | { readonly key: string, readonly header?: string }) {
  return typeof column === 'string' ? { key: column } : column
}

function messageOf(records: number): string {
  return records === 1 ? 'Exported 1 record.' : `Exported ${records} records.`
}
