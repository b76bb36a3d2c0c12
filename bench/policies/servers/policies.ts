// The same flow behind authentication, a rate limit on the same store, and all four version selectors.
import { authenticate, bearer, rateLimit, tokens } from 'longhaul/policies'
import {
  byMediaTypeParameter, byPath, byQuery, byVendorMediaType, versions,
} from 'longhaul/versions'
import { compose } from 'longhaul'
import { toNode } from 'longhaul/node'
import { listen } from '../../frame/subject.js'
import { flow, TOKEN } from '../flow.js'

const { handler, store } = flow()
const vendor = 'acme'
const who = authenticate({ schemes: [bearer({ verify: tokens({ [TOKEN]: { subject: 'ann' } }) })] })
const limit = rateLimit({ store, onStoreError: 'deny', policies: [{ name: 'default', limit: 1_000_000_000, windowSeconds: 3600 }] })
const versioned = versions({
  '1': { handler, deprecated: '2026-07-01', sunset: '2099-06-30', successor: '/v2/reports' },
  '2': handler,
}, { select: [byPath(), byQuery(), byVendorMediaType({ vendor }), byMediaTypeParameter({ vendor })] })

listen(toNode(compose(who, limit, versioned)))
