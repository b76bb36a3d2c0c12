import { decodeBytes } from '../http/body/decode.js'
import { jsonSchema } from '../schema/json-schema.js'
import { failedAfter, spooledTask } from '../tasks/definition/spooled-task.js'
import { Spool, type SpooledBody } from '../tasks/definition/spool.js'
import type { TaskContext } from '../tasks/definition/define.js'
import { Intake } from './intake.js'
import { UploadReport, type UploadResult } from './report.js'
import {
  checkUpload, decodeOptions, type UploadTask, type UploadTaskOptions,
} from './upload-options.js'

/**
 * Defines the task that reads spooled uploads: give it to `createTasks`, and to `ndjsonUpload` as
 * `background`. Its result is the body of the direct answer. Default time-out: one hour.
 *
 * With `attempts` above 1, or a queue that runs a task again after a crash, an upload is read again
 * from its first line: make `write` repeatable.
 *
 * @throws {TypeError} when an option makes no sense
 */
export function uploadTask<T = object>(options: UploadTaskOptions<T>): UploadTask {
  checkUpload('uploadTask', options)
  const limits = decodeOptions('uploadTask', options)
  const spool = new Spool('uploadTask', 'ndjson-upload/', options.blobs, options.keepMs)
  const input = jsonSchema<SpooledBody>(spool.schema)

  const run = async (spooled: SpooledBody, task: TaskContext): Promise<UploadResult> => {
    const bytes = await spool.open(spooled)
    const { coding, size } = spooled
    const report = new UploadReport(options.maxErrors ?? 100)
    const { signal, owner, context } = task
    const watched = watch(bytes, signal, (done) => { task.progress(done, size, report.message) })
    const write: typeof options.write = (records, where) => {
      // A piece that is read may have many batches.
      signal.throwIfAborted()
      return options.write(records, where)
    }
    try {
      for await (const _ of new Intake({ ...options, write }, report, { signal, owner, context }, false).run(decodeBytes(watched, coding, limits)));
    } catch (error) {
      throw failedAfter(error, report.total, report.message)
    }
    return report.result
  }

  const definition = spooledTask<SpooledBody, UploadResult>(spool, options, input, run)

  const take: UploadTask['spool'] = async ({ body, signal }, coding, maxBytes) => {
    const { spooled, sha256 } = await spool.take(body.stream(), { coding, maxBytes, signal })
    return { input: spooled, body: { coding, sha256 }, discard: () => spool.discard(spooled) }
  }
  return Object.assign(definition, { spool: take })
}

/** Tells how far the reading is, and ends it when the task is stopped. */
async function* watch(
  source: AsyncIterable<Uint8Array>, signal: AbortSignal, progress: (done: number) => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  let done = 0
  for await (const piece of source) {
    signal.throwIfAborted()
    yield piece
    done += piece.byteLength
    progress(done)
  }
}
