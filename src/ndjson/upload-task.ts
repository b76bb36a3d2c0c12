import type { DecodeOptions } from '../http/body/decode.js'
import type { HttpRequest } from '../http/exchange.js'
import { positionSaver, resumedFrom } from '../tasks/definition/resume.js'
import { Spool, decodedFrom, type SpooledBody } from '../tasks/definition/spool.js'
import { failedAfter, spooledTask } from '../tasks/definition/spooled-task.js'
import { retryUntil } from '../stores/calls.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import type { ReadWork } from '../tasks/http/submit-options.js'
import { Ingest } from './ingest.js'
import type { UploadBackgroundOptions, UploadOptions, UploadTask } from './upload-options.js'
import {
  isPosition, POSITION, START, type StoredErrors, type UploadPosition,
} from './upload-position.js'
import { UploadReport, type UploadResult } from './upload-report.js'
import { UploadCheckpoint, type UploadRunContext } from './upload-resume.js'

/** Task of an upload, and the function that makes a request its input. */
export interface SpooledUpload {
  readonly task: UploadTask
  /** Writes the body to the blobs, as it was sent. */
  spool<C>(
    endpoints: TaskEndpoints<C>, request: HttpRequest<C>, coding: string,
  ): Promise<ReadWork>
}

/** Creates the task that reads spooled uploads. */
export function spooledUpload<T>(
  options: UploadOptions<T>, limits: DecodeOptions, background: UploadBackgroundOptions,
): SpooledUpload {
  const { blobs, blobRetentionMs } = background
  const spool = new Spool('ndjsonUpload', 'ndjson-upload/', blobs, blobRetentionMs)

  const run = async (spooled: SpooledBody, task: UploadRunContext): Promise<UploadResult> => {
    const { size } = spooled
    const { signal, owner, context, taskId, attempt } = task
    const { resume } = options
    const report = new UploadReport(options.maxErrors ?? 100)
    const save = positionSaver(resume, task.checkpoint)
    const parts = spool.parts(spooled, attempt, retryUntil(signal))
    const checkpoint = new UploadCheckpoint(parts, save)
    const start = await resumedFrom('ndjsonUpload', resume, isPosition, task)
    const { position: from = START, previous } = start
    report.continueFrom(from.succeeded, from.failed, await checkpoint.continueFrom(from))
    let done = 0
    const progress = (): void => { task.progress(done, size, report.message) }
    const bytes = await decodedFrom(spooled, from.byte, limits, async (start) => {
      done = start
      const pieces = await spool.open(spooled, start)
      return withProgress(pieces, signal, (bytes) => { done += bytes }, progress)
    })
    const place = { signal, owner, context, taskId }
    const commit = (position: UploadPosition): Promise<StoredErrors> => {
      // The status of a task that fails or is stopped says how many records it has written.
      progress()
      return checkpoint.save(position)
    }
    const ingest = new Ingest(options, report, place, false, { from, previous, commit })
    try {
      for await (const _ of ingest.run(bytes));
    } catch (error) {
      throw failedAfter(error, report.total, report.message)
    }
    return report.result
  }

  return {
    task: spooledTask<SpooledBody, UploadResult, UploadPosition>(
      spool, background, spool.input(), run, POSITION,
    ),
    async spool(endpoints, request, coding) {
      const { maxBodyBytes } = limits
      const sent = { bytes: request.body.stream(), coding, maxBodyBytes }
      const { spooled, sha256, discard } = await endpoints.spool(request, spool, sent)
      return { input: spooled, body: { coding, sha256 }, discard }
    },
  }
}

/**
 * Counts the bytes as sent, and calls `progress` after each piece. Ends with an error when the task
 * is stopped.
 */
async function* withProgress(
  source: AsyncIterable<Uint8Array>, signal: AbortSignal, count: (bytes: number) => void,
  progress: () => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of source) {
    signal.throwIfAborted()
    count(piece.byteLength)
    yield piece
    progress()
  }
}
