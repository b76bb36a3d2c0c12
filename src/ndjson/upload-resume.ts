import type { TaskContext } from '../tasks/definition/run-context.js'
import { textOf, type KeptParts } from '../tasks/definition/kept-parts.js'
import type { StoredErrors, UploadPosition } from './upload-position.js'
import type { UploadError } from './upload-report.js'

/** Maximum size of the errors in a checkpoint, as JSON in UTF-16 units. More become a blob. */
const MAX_ERRORS_LENGTH = 16_384

/** The context of a run that reads an upload. */
export type UploadRunContext = TaskContext<unknown, UploadPosition>

/** Stores the errors of an upload that are too large for its checkpoint, and the checkpoint. */
export class UploadCheckpoint {
  constructor(
    private readonly parts: KeptParts,
    private readonly savePosition: UploadRunContext['checkpoint']['save'],
  ) {}

  /** Continues at a position. Returns its errors. */
  async continueFrom({ parts, errors }: UploadPosition): Promise<readonly UploadError[]> {
    this.parts.list = parts
    const lines = (await textOf(this.parts.read())).split('\n').slice(0, -1)
    return [...lines.map((line) => JSON.parse(line) as UploadError), ...errors]
  }

  /** Saves a position. Returns the errors that are stored as blobs. */
  async save(position: UploadPosition): Promise<StoredErrors> {
    const kept = await this.storeErrors(position)
    await this.savePosition(kept)
    return { stored: kept.stored, parts: kept.parts }
  }

  /** Stores the errors of a position if they are large. Errors are only ever added. */
  private async storeErrors(position: UploadPosition): Promise<UploadPosition> {
    const { errors, stored } = position
    const text = errors.map((error) => `${JSON.stringify(error)}\n`).join('')
    if (text.length <= MAX_ERRORS_LENGTH) return position
    await this.parts.add(text)
    return { ...position, stored: stored + errors.length, parts: this.parts.list, errors: [] }
  }
}
