import { ndjsonDownload } from '../../../src/ndjson/download.js'
import { ndjsonUpload } from '../../../src/ndjson/upload.js'
import { uploadTask } from '../../../src/ndjson/upload-task.js'
import { refuses, type Loose } from '../refuses.js'

const make = { ndjsonDownload, ndjsonUpload, uploadTask } as unknown as Record<'ndjsonDownload' | 'ndjsonUpload' | 'uploadTask', Loose>
const write = () => undefined

refuses([
  [() => make.ndjsonUpload(), 'ndjsonUpload: pass options, such as { write }'],
  [() => make.ndjsonUpload({ write, maxLinebytes: 1 }), 'ndjsonUpload: there is no option "maxLinebytes"; did you mean "maxLineBytes"?'],
  [() => make.ndjsonUpload({ write, maxLine: 1 }), 'ndjsonUpload: there is no option "maxLine"; did you mean "maxLineBytes"?'],
  [() => make.uploadTask({ write, keep: 1 }), 'uploadTask: there is no option "keep"; did you mean "keepMs"?'],
  [() => make.ndjsonDownload(), 'ndjsonDownload: pass options, such as { records }'],
  [() => make.ndjsonDownload({ records: () => [], coding: [] }), 'ndjsonDownload: there is no option "coding"; did you mean "codings"?'],
])
