import { guard } from '../../../src/http/boundary.js'
import { compose } from '../../../src/http/exchange.js'
import { httpError } from '../../../src/http/errors.js'
import { content } from '../../../src/content/content.js'
import { refuses, type Loose } from '../kit/refuses.js'

const make = { compose, guard, httpError, content } as unknown as Record<
  'compose' | 'guard' | 'httpError' | 'content',
  Loose
>
const policy = (request: unknown, next: (request: unknown) => unknown) => next(request)
const source = 'content: pass a source, or a function that finds one, such as folderSource(path) of longhaul/files'

refuses([
  [() => make.guard(), 'Pass a handler, such as submit(report) or status of taskEndpoints, not undefined'],
  [() => make.compose(), 'compose: pass policies and, last, a handler'],
  [
    () => make.compose([policy], policy),
    'compose takes policies and, last, a handler; argument 1 is an array; spread it: compose(...policies, handler)',
  ],
  [() => make.compose(policy, undefined), 'compose takes policies and, last, a handler; argument 2 is not a function'],
  [
    () => make.httpError('unprocessible'),
    'httpError: there is no code unprocessible; for a code of your own, write new HttpError(status, code)',
  ],
  [
    () => make.httpError(),
    'httpError: there is no code undefined; for a code of your own, write new HttpError(status, code)',
  ],
  [() => make.content(), source],
  [() => make.content('/tmp/x'), source],
])
