import { decodeBytes, type DecodeOptions } from '../http/body/decode.js'
import type { HttpRequest } from '../http/exchange.js'
import type { TaskContext } from '../tasks/definition/define.js'
import { Spool, type SpooledBody } from '../tasks/definition/spool.js'
import { failedAfter, spooledTask } from '../tasks/definition/spooled-task.js'
import type { ReadWork } from '../tasks/http/submit-endpoint-options.js'
import { Ingest } from './ingest.js'
import type { UploadBackgroundOptions, UploadOptions, UploadTask } from './upload-options.js'
import { UploadReport, type UploadResult } from './upload-report.js'

/** Task of an upload, and the function that makes a request its input. */
export interface SpooledUpload {
  readonly task: UploadTask
  /** Writes the body to the blobs, as it was sent. */
  spool(request: HttpRequest, coding: string): Promise<ReadWork>
}

/** Creates the task that reads spooled uploads. */
export function spooledUpload<T>(
  options: UploadOptions<T>, limits: DecodeOptions, background: UploadBackgroundOptions,
): SpooledUpload {
  const { blobs, blobRetentionMs } = background
  const spool = new Spool('ndjsonUpload', 'ndjson-upload/', blobs, blobRetentionMs)

  const run = async (spooled: SpooledBody, task: TaskContext): Promise<UploadResult> => {
    const { coding, size } = spooled
    const { signal, owner, context } = task
    const report = new UploadReport(options.maxErrors ?? 100)
    const bytes = withProgress(await spool.open(spooled), signal, (read) => {
      task.progress(read, size, report.message)
    })
    const write: typeof options.write = (records, place) => {
      // One piece of the body may contain many batches.
      signal.throwIfAborted()
      return options.write(records, place)
    }
    const ingest = new Ingest({ ...options, write }, report, { signal, owner, context }, false)
    try {
      for await (const _ of ingest.run(decodeBytes(bytes, coding, limits)));
    } catch (error) {
      throw failedAfter(error, report.total, report.message)
    }
    return report.result
  }

  return {
    task: spooledTask<SpooledBody, UploadResult>(spool, background, spool.input(), run),
    async spool({ body, signal }, coding) {
      const { maxBodyBytes } = limits
      const { spooled, sha256 } = await spool.write(body.stream(), { coding, maxBodyBytes, signal })
      const discard = () => spool.discard(spooled)
      return { input: spooled, body: { coding, sha256 }, discard }
    },
  }
}

/** Reports progress in bytes as sent, and ends with an error when the task is stopped. */
async function* withProgress(
  source: AsyncIterable<Uint8Array>, signal: AbortSignal, progress: (read: number) => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  let read = 0
  for await (const piece of source) {
    signal.throwIfAborted()
    yield piece
    read += piece.byteLength
    progress(read)
  }
}
