import type { RecordTask } from '../records/background.js'
import { positionOf } from '../records/position.js'
import type { Report } from '../records/report.js'
import { SpooledRun, type RecordTaskContext } from '../records/spooled-run.js'
import { Spool, decodedFrom, failedAfter, spooledTask } from '../records/spool.js'
import type { SpooledBody } from '../tasks/http/spool-body.js'
import type { UploadItem, UploadResult } from '../wire/report.js'
import type {
  UploadAsked, UploadBackgroundOptions, UploadSettings, UploadTask,
} from './upload-options.js'
import { isLinePlace, messageOf, placeOf, readAll, reportSettings, writeLines } from './upload-run.js'

/** Creates the task of an upload. */
export function uploadTask<T>(
  settings: UploadSettings<T>, background: UploadBackgroundOptions,
): RecordTask<UploadAsked, UploadTask> {
  const where = 'ndjsonUpload'
  const { limits, limits: { maxBodyBytes }, resume, source } = settings
  const spool = new Spool({ where, prefix: 'ndjson-upload/', keepsReport: false, ...background })

  const run = async (spooled: SpooledBody, task: RecordTaskContext): Promise<UploadResult> => {
    const { size } = spooled
    const { signal, owner, context, taskId } = task
    let done = 0
    const progress = (report: Report): void => { task.progress(done, size, messageOf(report), 'bytes') }
    const continuation = await SpooledRun.open({
      where, spool, spooled, task, resume, isPlace: isLinePlace, progress,
      report: reportSettings(settings), maxInlineBytes: Infinity,
      // The next attempt reads the lines of a lost report again.
      onError: (error) => { throw error },
    })
    const { report, stored, from } = continuation
    const open = async (start: number) => {
      done = start
      const pieces = await spool.open(spooled, start)
      const count = (size: number): void => { done += size }
      return withProgress(pieces, signal, count, () => { progress(report) })
    }
    const { coding } = spooled
    const decoded = await decodedFrom({ coding, open }, source ? 0 : placeOf(from).byte, limits)
    const call = { signal, owner, context, taskId }
    try {
      const place = { taskId: taskId ?? 'direct', name: background.name, attempt: task.attempt }
      await readAll(writeLines(decoded, {
        settings, report, context: call, place, from, continuation,
      }))
      await continuation.finish()
    } catch (error) {
      throw failedAfter(error, report.total, messageOf(report))
    }
    done = size
    progress(report)
    const items = stored.items<UploadItem>() ?? []
    return { message: messageOf(report), summary: report.summary, items }
  }

  return {
    task: spooledTask(spool, background, {
      input: spool.input(), run, checkpoint: positionOf(isLinePlace),
    }),
    async spool(open, request, { coding }, bytes = request.body.stream()) {
      const { spooled, sha256, discard } = await open.spool(spool, { bytes, coding, maxBodyBytes })
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
