import type { HttpRequest } from '../http/exchange.js'
import { positionOf } from '../records/position.js'
import type { Report } from '../records/report.js'
import { TaskRun, type RecordTaskContext } from '../records/task-run.js'
import { Spool, decodedFrom, failedAfter, spooledTask } from '../records/spool.js'
import type { SpooledBody } from '../tasks/http/spool-body.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import type { ReadWork } from '../tasks/http/settings.js'
import type { UploadItem, UploadResult } from '../wire/report.js'
import type { UploadBackgroundOptions, UploadSettings, UploadTask } from './upload-options.js'
import { isLinePlace, messageOf, placeOf, readAll, reportSettings, writeLines } from './upload-run.js'

export interface SpooledUpload {
  readonly task: UploadTask
  spool<C>(endpoints: TaskEndpoints<C>, request: HttpRequest<C>, coding: string): Promise<ReadWork>
}

export function spooledUpload<T>(
  settings: UploadSettings<T>, background: UploadBackgroundOptions,
): SpooledUpload {
  const { name, blobs, blobRetentionMs } = background
  const { limits, resume, source } = settings
  const spool = new Spool('ndjsonUpload', 'ndjson-upload/', blobs, blobRetentionMs)

  const run = async (spooled: SpooledBody, task: RecordTaskContext): Promise<UploadResult> => {
    const { size } = spooled
    const { signal, owner, context, taskId } = task
    let done = 0
    const progress = (report: Report): void => { task.progress(done, size, messageOf(report), 'bytes') }
    const continuation = await TaskRun.open({
      caller: 'ndjsonUpload', spool, spooled, task, resume, isPlace: isLinePlace, progress,
      report: reportSettings(settings), maxInlineBytes: Infinity,
      // The next attempt reads the lines of a lost report again.
      onError: (error) => { throw error },
    })
    const { report, stored, from } = continuation
    const decoded = await decodedFrom(spooled, source ? 0 : placeOf(from).byte, limits, async (start) => {
      done = start
      const pieces = await spool.open(spooled, start)
      const count = (size: number): void => { done += size }
      return withProgress(pieces, signal, count, () => { progress(report) })
    })
    const call = { signal, owner, context, taskId }
    try {
      const place = { taskId: taskId ?? 'direct', name, attempt: task.attempt }
      await readAll(writeLines(decoded, {
        settings, report, context: call, place, from, continuation,
      }))
    } catch (error) {
      throw failedAfter(error, report.total, messageOf(report))
    }
    done = size
    progress(report)
    const items = stored.items<UploadItem>() ?? []
    return { message: messageOf(report), summary: report.summary, items }
  }

  return {
    task: spooledTask(spool, background, spool.input(), run, positionOf(isLinePlace)),
    async spool(endpoints, request, coding) {
      const { maxBodyBytes } = limits
      const sent = { bytes: request.body.stream(), coding, maxBodyBytes }
      const { spooled, sha256, discard } = await endpoints.spool(request, spool, sent)
      return { input: spooled, body: { coding, sha256 }, discard }
    },
  }
}

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
