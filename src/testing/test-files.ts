import { createHash } from 'node:crypto'
import { digestField } from '../http/fields/digests.js'
import { checkNames } from '../runtime/option-names.js'
import { fileBytes } from '../tasks/definition/file-content.js'
import { checkFileName, checkFileType } from '../tasks/definition/file-name.js'
import {
  OCTETS, WRITE_FILE, type TaskFile, type TaskFiles,
} from '../tasks/definition/files.js'

/** A file that `run` has written in a test. */
export interface TestFile extends TaskFile {
  /** The content, as text in UTF-8. */
  readonly text: string
  readonly bytes: Uint8Array
}

/** Files in the memory of a test. */
export class TestFiles implements TaskFiles {
  readonly written: TestFile[] = []
  private readonly names = new Set<string>()

  constructor(private readonly signal: AbortSignal) {}

  readonly write: TaskFiles['write'] = async (name, content, options = {}) => {
    checkFileName(name)
    checkNames('files.write', options, WRITE_FILE)
    const { type = OCTETS } = options
    checkFileType(type)
    if (this.names.has(name)) throw new TypeError(`files.write: this run has written ${name} before`)
    this.names.add(name)
    const chunks: Uint8Array[] = []
    for await (const chunk of fileBytes(content)) {
      this.signal.throwIfAborted()
      chunks.push(Uint8Array.from(chunk))
    }
    const bytes = Buffer.concat(chunks)
    const digest = digestField({ 'sha-256': createHash('sha256').update(bytes).digest('base64') })
    const file = { name, size: bytes.byteLength, type, digest }
    this.written.push({ ...file, text: bytes.toString(), bytes })
    return file
  }
}
