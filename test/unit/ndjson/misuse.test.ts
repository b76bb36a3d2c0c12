import { ndjsonDownload } from '../../../src/ndjson/download.js'
import { ndjsonUpload } from '../../../src/ndjson/upload.js'
import { refuses, type Loose } from '../kit/refuses.js'

const make = { ndjsonDownload, ndjsonUpload } as unknown as Record<'ndjsonDownload' | 'ndjsonUpload', Loose>
const write = () => undefined

refuses([
  [() => make.ndjsonUpload(), 'ndjsonUpload: pass options, such as { write }'],
  [
    () => make.ndjsonUpload({ write, maxLinebytes: 1 }),
    'ndjsonUpload: there is no option "maxLinebytes"; did you mean "maxLineBytes"?',
  ],
  [
    () => make.ndjsonUpload({ write, maxLine: 1 }),
    'ndjsonUpload: there is no option "maxLine"; did you mean "maxLineBytes"?',
  ],
  [
    () => make.ndjsonUpload({ write, background: { nam: 1 } }),
    'ndjsonUpload: background: there is no option "nam"; did you mean "name"?',
  ],
  [() => make.ndjsonUpload({ write, background: { name: 'up' } }), 'ndjsonUpload: background.blobs is required'],
  [() => make.ndjsonDownload(), 'ndjsonDownload: pass options, such as { records }'],
  [
    () => make.ndjsonDownload({ records: () => [], coding: [] }),
    'ndjsonDownload: there is no option "coding"; did you mean "codings"?',
  ],
])
