import { compose } from '../../../src/http/exchange.js'
import { httpError } from '../../../src/http/errors.js'
import { content } from '../../../src/content/content.js'
import { refuses, type Loose } from '../refuses.js'

const make = { compose, httpError, content } as unknown as Record<'compose' | 'httpError' | 'content', Loose>
const source = 'content: pass a source, or a function that finds one, such as folderSource(path) of longhaul/files'

refuses([
  [() => make.compose(), 'compose: pass policies and, last, a handler'],
  [() => make.httpError('unprocessible'), 'httpError: there is no code unprocessible; for one of your own: new HttpError(status, code)'],
  [() => make.httpError(), 'httpError: there is no code undefined; for one of your own: new HttpError(status, code)'],
  [() => make.content(), source],
  [() => make.content('/tmp/x'), source],
])
