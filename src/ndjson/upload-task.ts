import type { RecordTask } from '../records/background.js'
import { positionOf, type RecordPosition } from '../records/position.js'
import { Report, type ReportSettings } from '../records/report.js'
import { firstFailed, itemsOf } from '../records/stored-report.js'
import { SpooledRun, type RecordTaskContext } from '../records/spooled-run.js'
import { Spool, decodedFrom, failedAfter, spooledTask } from '../records/spool.js'
import type { UploadItem, UploadResult } from '../wire/report.js'
import { rejectedFormat } from './rejected-lines.js'
import type {
  SpooledUpload, UploadAsked, UploadBackgroundOptions, UploadSettings, UploadTask,
} from './upload-options.js'
import {
  isLinePlace, MAX_REPORT_BYTES, messageOf, readAll, readFrom, reportSettings, writeLines,
} from './upload-run.js'

/** Creates the task of an upload. */
export function uploadTask<T>(
  settings: UploadSettings<T>, background: UploadBackgroundOptions,
): RecordTask<UploadAsked, UploadTask> {
  const where = 'ndjsonUpload'
  const { limits: { maxBodyBytes } } = settings
  const { keepItems = false, rejectedFile = false, ...options } = background
  const spool = new Spool({ where, prefix: 'ndjson-upload/', keepsReport: keepItems, ...options })
  const work = { settings, spool, name: background.name, keepItems, rejectedFile }
  const input = spool.input<SpooledUpload>({ dryRun: (given) => given === undefined || given === true })
  return {
    task: spooledTask<SpooledUpload, UploadResult, RecordPosition>(spool, options, {
      input, checkpoint: positionOf(isLinePlace), files: rejectedFile,
      run: (spooled, task) => new UploadRun<T>(work, spooled, task).run(),
    }),
    async spool(open, request, { coding, isDry }, bytes = request.body.stream()) {
      const { spooled, sha256, discard } = await open.spool(spool, { bytes, coding, maxBodyBytes })
      const dry = isDry && { dryRun: true as const }
      return { input: { ...spooled, ...dry }, body: { coding, sha256, ...dry }, discard }
    },
  }
}

interface UploadWork<T> extends Required<Pick<UploadBackgroundOptions, 'keepItems' | 'rejectedFile'>> {
  readonly settings: UploadSettings<T>
  readonly spool: Spool
  /** Name of the task. */
  readonly name: string
}

/** One run of the task of an upload. */
class UploadRun<T> {
  /** Number of bytes as sent that were read. */
  private done = 0
  private isChecking = false

  constructor(
    private readonly work: UploadWork<T>, private readonly spooled: SpooledUpload,
    private readonly task: RecordTaskContext,
  ) {}

  async run(): Promise<UploadResult> {
    const { task, spooled, work: { settings, spool, keepItems, rejectedFile } } = this
    const keepsAll = keepItems || rejectedFile
    const taskRun = await SpooledRun.open({
      where: 'ndjsonUpload', spool, spooled, task, resume: settings.resume, isPlace: isLinePlace,
      progress: (report) => { this.progress(report) },
      report: keepsAll ? keptReport(keepItems) : reportSettings(settings),
      maxInlineBytes: keepsAll ? 0 : Infinity,
      // The next attempt reads the lines of a lost report again.
      onError: (error) => { throw error },
      ...keepItems && { total: Infinity },
    })
    const { report, stored } = taskRun
    try {
      if (settings.checkFirst && !this.isDry && taskRun.from.done === 0) await this.check(taskRun)
      await this.write(taskRun)
      await taskRun.finish()
      if (rejectedFile && report.failed > 0) await this.writeRejected(itemsOf(stored, true))
    } catch (error) {
      if (keepItems) await taskRun.leaveRest()
      throw failedAfter(error, report.total, messageOf(report, this.isDry || this.isChecking))
    }
    this.done = spooled.size
    this.progress(report)
    const items = keepsAll
      ? await firstFailed<UploadItem>(stored, {
        count: Math.min(report.failed, settings.maxErrors), maxBytes: MAX_REPORT_BYTES,
      })
      : stored.items<UploadItem>() ?? []
    const { summary } = report
    return {
      message: messageOf(report, this.isDry), ...this.isDry && { dryRun: true }, summary, items,
    }
  }

  private get isDry(): boolean {
    return this.spooled.dryRun === true
  }

  private progress(report: Report): void {
    this.task.progress(this.done, this.spooled.size, messageOf(report, this.isDry || this.isChecking), 'bytes')
  }

  /** Validates the whole body before anything is written. */
  private async check({ report, stored }: SpooledRun): Promise<void> {
    const { work: { settings } } = this
    const { maxBadLines } = settings
    const checked = new Report(stored, { ...report.settings, selection: 'failed', maxItems: maxBadLines + 1 })
    try {
      this.isChecking = true
      const body = await this.open(0, checked)
      const upload = { settings, report: checked, context: this.call, isDry: true }
      for await (const _ of writeLines(body, upload)) await stored.flush()
    } catch (error) {
      report.continueFrom(checked.counts)
      throw error
    }
    this.isChecking = false
    stored.restart()
  }

  private async write(taskRun: SpooledRun): Promise<void> {
    const { isDry, work: { settings, name }, task: { attempt, taskId = 'direct' } } = this
    const { report, from } = taskRun
    const body = await this.open(settings.source ? 0 : readFrom({ settings, from }).byte, report)
    await readAll(writeLines(body, {
      settings, report, context: this.call, isDry, from, continuation: taskRun,
      place: { taskId, name, attempt },
    }))
  }

  /** Writes the failed lines to a file. */
  private async writeRejected(failed: AsyncIterable<UploadItem>): Promise<void> {
    const { task: { files }, work: { settings } } = this
    const format = rejectedFormat(settings.source)
    const { coding } = this.spooled
    const open = (start: number) => this.work.spool.open(this.spooled, start)
    const body = await decodedFrom({ coding, open }, 0, settings.limits)
    const content = format.write(body, failed)
    await files.write(`rejected.${format.extension}`, content, { type: format.type })
  }

  private get call() {
    const { signal, owner, tenant, context, taskId } = this.task
    return { signal, owner, tenant, context, taskId }
  }

  /** Opens the decoded body, and counts the bytes that are read. */
  private async open(byte: number, report: Report): Promise<AsyncIterable<Uint8Array>> {
    const { spooled, spooled: { coding }, task: { signal }, work: { spool, settings } } = this
    const open = async (start: number) => {
      this.done = start
      const pieces = await spool.open(spooled, start)
      const count = (size: number): void => { this.done += size }
      return withProgress(pieces, signal, count, () => { this.progress(report) })
    }
    return decodedFrom({ coding, open }, byte, settings.limits)
  }
}

/** Settings of a report that is read from its parts. Its size is bounded by `maxLines`. */
function keptReport(keepItems: boolean): ReportSettings {
  return {
    numbers: 'line', status: 200, maxBytes: Infinity, selection: keepItems ? 'all' : 'failed',
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
