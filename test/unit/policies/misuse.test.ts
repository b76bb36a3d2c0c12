import { test } from 'node:test'
import { apiKey, basic, bearer, hostUser } from '../../../src/policies/schemes.js'
import { authenticate } from '../../../src/policies/authenticate.js'
import { rateLimit } from '../../../src/policies/rate-limit.js'
import { timeouts } from '../../../src/policies/timeouts.js'
import { memory } from '../../../adapters/memory/index.js'
import { refuses, type Loose } from '../kit/refuses.js'

const make = { authenticate, bearer, rateLimit, timeouts } as unknown as Record<
  'authenticate' | 'bearer' | 'rateLimit' | 'timeouts',
  Loose
>
const verify = () => undefined
const schemes = [bearer({ verify })]
const limit = { store: memory().store, onStoreError: 'deny', policies: [{ name: 'x', limit: 1, windowSeconds: 1 }] }
const none = 'authenticate: schemes must be a list of one or more schemes, such as [bearer({ verify })], not '

refuses([
  [() => make.authenticate(), 'authenticate: pass options, such as { schemes }'],
  [() => make.authenticate({ scheme: schemes }), 'authenticate: there is no option "scheme"; did you mean "schemes"?'],
  [() => make.authenticate({ schemes: [() => {}] }), `${none}[a function]`],
  [() => make.authenticate({ schemes: bearer({ verify }) }), `${none}an object`],
  [() => make.bearer({}), 'bearer: the option verify is missing; it must be a function'],
  [() => make.authenticate({ schemes: [...schemes, undefined] }), `${none}[an object, undefined]`],
  [() => make.authenticate({ schemes: [...schemes, { read: verify, verify }] }), `${none}[an object, an object]`],
  [
    () => make.authenticate({ schemes, cache: { maxEntries: 1, ttl: 5 } }),
    'authenticate: cache: there is no option "ttl"; did you mean "ttlMs"?',
  ],
  [() => make.rateLimit(), 'rateLimit: pass options, such as { store }'],
  [
    () => make.rateLimit({ ...limit, trustedProxys: [] }),
    'rateLimit: there is no option "trustedProxys"; did you mean "trustedProxies"?',
  ],
  [
    () => make.rateLimit({ ...limit, policies: [{ name: 'x', limit: 1, window: 1 }] }),
    'rateLimit: a policy: there is no option "window"; did you mean "windowSeconds"?',
  ],
  [() => make.timeouts(), 'timeouts: pass options, such as { readMs }'],
  [() => make.timeouts({ readms: 1 }), 'timeouts: there is no option "readms"; did you mean "readMs"?'],
])

test('every built-in scheme is accepted', () => {
  make.authenticate({
    schemes: [...schemes, basic({ verify }), apiKey({ header: 'x-key', verify }), hostUser(verify)],
    optional: true,
  })
})
