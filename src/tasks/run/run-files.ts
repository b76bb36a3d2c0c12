import { createHash, type Hash } from 'node:crypto'
import { httpError } from '../../http/errors.js'
import { digestHeader } from '../../http/headers/digests.js'
import { Sequence } from '../../runtime/maybe-promise.js'
import type { Blobs } from '../../stores/blobs.js'
import { fileBytes, fileTypeOf } from '../definition/file-content.js'
import type {
  FileContent, KeepableFiles, KeptFile, TaskFiles, WriteFileOptions,
} from '../definition/run-context.js'
import { blobName, fileKey, withFileRun, type RecordFiles } from '../record/outside.js'
import { permanent } from './failure.js'
import { failedOutcome, type Outcome, type Stop } from './run.js'
import type { TaskFile } from '../../wire/task.js'
import { deleteBlobs, renewBlobs } from '../../stores/blob-rules.js'

const MAX_FILES = 1000
/** Slots that the first file reserves. Each further reservation doubles them. */
const FIRST_SLOTS = 4

export interface RunFilesSettings {
  readonly taskId: string
  readonly run: string
  readonly blobs: Blobs
  /** Lifetime of blobs, in milliseconds. */
  readonly ttlMs: number
  readonly maxFileBytes: number
  readonly stop: Stop
  readonly reserve: (slots: number) => Promise<void>
  /** Notes in the task that these files are kept when a run ends. */
  readonly keep: (kept: readonly KeptFile[]) => Promise<void>
  /** Keeps each file as soon as it is finished. */
  readonly keepsEach: boolean
}

interface Written {
  readonly file: TaskFile
  readonly blob: string
}

export class RunFiles implements KeepableFiles {
  private readonly names = new Set<string>()
  private readonly written = new Map<number, Written>()
  /** Slots of files that a later run may need. */
  private readonly kept = new Set<number>()
  /** Number of slots whose files were begun. */
  private begun = 0
  private reserved = 0
  private readonly reservations = new Sequence()
  private pending = 0
  private bytes = 0
  private over = false
  private readonly end = new AbortController()

  constructor(private readonly settings: RunFilesSettings) {}

  readonly write: TaskFiles['write'] = (name, content, options = {}) => {
    const file = this.writeFile(name, content, options)
    // A run that does not wait for a file must not end the process with its error.
    file.catch(() => undefined)
    return file
  }

  async keep(): Promise<readonly KeptFile[]> {
    const inOrder = this.inOrder()
    const files = inOrder.map(([, { file, blob }]) => ({ ...file, blob }))
    if (inOrder.every(([slot]) => this.kept.has(slot))) return files
    const slots = inOrder.map(([slot]) => slot).filter((slot) => !this.kept.has(slot))
    // The task may have them already when the run ends during this write.
    for (const slot of slots) this.kept.add(slot)
    try {
      await this.settings.keep(files)
    } catch (error) {
      for (const slot of slots) this.kept.delete(slot)
      if (this.over) await this.deleteFiles(inOrder.filter(([slot]) => slots.includes(slot)))
      throw error
    }
    if (this.over) throw new Error('The run has ended')
    return files
  }

  async adopt(files: readonly KeptFile[]): Promise<boolean> {
    const { taskId, blobs, ttlMs } = this.settings
    if (files.length > MAX_FILES) return false
    const keys = files.map(({ blob }) => fileKey(taskId, blob))
    const found = await renewBlobs(blobs, keys, ttlMs)
    if (files.some(({ size }, at) => found[at]?.size !== size)) return false
    for (const [slot, { blob, ...file }] of files.entries()) {
      this.names.add(file.name)
      this.written.set(slot, { file, blob })
      this.kept.add(slot)
      this.bytes += file.size
    }
    this.begun = files.length
    this.reserved = files.length
    return true
  }

  /** Fails a run that has returned without waiting for a file. */
  check(outcome: Outcome): Outcome {
    this.over = true
    if (outcome.kind !== 'completed' || this.pending === 0) return outcome
    return failedOutcome(
      new TypeError('run ended before its files were written; await each files.write'),
    )
  }

  recorded({ fileRuns = [], blobs: kept = [] }: RecordFiles): RecordFiles {
    const { run } = this.settings
    const inOrder = this.inOrder()
    const files = inOrder.map(([, { file }]) => file)
    const blobs = inOrder.map(([, { blob }]) => blob)
    const isLeft = files.length < this.begun
    return {
      ...files.length > 0 ? { files, blobs } : kept.length > 0 && { files: undefined, blobs: kept },
      fileRuns: withFileRun(fileRuns, run, isLeft ? this.begun : 0),
    }
  }

  /** Deletes the files of this run that it does not keep. Never rejects. */
  async discard(): Promise<void> {
    this.over = true
    this.end.abort(new Error('The run has ended'))
    const discarded = [...this.written].filter(([slot]) => !this.kept.has(slot))
    this.written.clear()
    await this.deleteFiles(discarded)
  }

  private async deleteFiles(files: readonly (readonly [number, Written])[]): Promise<void> {
    const { taskId, blobs } = this.settings
    await deleteBlobs(blobs, files.map(([, { blob }]) => fileKey(taskId, blob)))
  }

  private inOrder(): readonly (readonly [number, Written])[] {
    return [...this.written].sort(([one], [other]) => one - other)
  }

  private async writeFile(
    name: string, content: FileContent, options: WriteFileOptions,
  ): Promise<TaskFile> {
    const type = fileTypeOf(name, options)
    const { stop, taskId, run } = this.settings
    if (stop.aborted) throw stop.reason
    if (this.over) throw new TypeError('files.write was called after the run had ended')
    if (this.names.has(name)) throw new TypeError(`files.write: this run has written ${name} before`)
    if (this.begun === MAX_FILES) {
      throw new TypeError(`files.write: a run writes at most ${MAX_FILES} files`)
    }
    const slot = this.begun++
    this.names.add(name)
    this.pending++
    try {
      await this.reserve(slot)
      const blob = blobName(run, slot)
      const file = await this.put(fileKey(taskId, blob), content, { name, type })
      this.written.set(slot, { file, blob })
      if (this.end.signal.aborted) await this.discard()
      else if (this.settings.keepsEach) await this.keep()
      return file
    } catch (error) {
      this.names.delete(name)
      throw error
    } finally {
      this.pending--
    }
  }

  private async put(
    key: string, content: FileContent, { name, type }: Pick<TaskFile, 'name' | 'type'>,
  ): Promise<TaskFile> {
    const { blobs, ttlMs, stop } = this.settings
    const signal = AbortSignal.any([stop.signal, this.end.signal])
    const hash = createHash('sha256')
    const counted = { bytes: 0 }
    try {
      const { size } = await blobs.put(key, this.measured(content, hash, counted), { ttlMs, signal })
      return { name, size, type, digest: digestHeader({ 'sha-256': hash.digest('base64') }) }
    } catch (error) {
      this.bytes -= counted.bytes
      throw error
    }
  }

  /** Yields, hashes and counts the bytes of a file. */
  private async *measured(
    content: FileContent, hash: Hash, counted: { bytes: number },
  ): AsyncGenerator<Uint8Array, void, undefined> {
    const { maxFileBytes } = this.settings
    for await (const chunk of fileBytes(content)) {
      counted.bytes += chunk.byteLength
      this.bytes += chunk.byteLength
      if (this.bytes > maxFileBytes) {
        const cause = new RangeError(`The files of the run have more than ${maxFileBytes} bytes`)
        throw permanent(httpError('result_files_too_large', { cause }))
      }
      hash.update(chunk)
      yield chunk
    }
  }

  /** Notes a slot in the task before its blob is written. */
  private async reserve(slot: number): Promise<void> {
    await this.reservations.run(async () => {
      if (slot < this.reserved) return
      const slots = Math.min(MAX_FILES, Math.max(FIRST_SLOTS, 2 * this.reserved))
      await this.settings.reserve(slots)
      this.reserved = slots
    })
  }
}
