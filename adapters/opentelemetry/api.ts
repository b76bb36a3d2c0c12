import * as api from '@opentelemetry/api'
import { wrongPeer } from '../../src/runtime/peer.js'

// A named import that does not exist would be a SyntaxError without a version.
if (!('metrics' in api)) {
  throw wrongPeer('longhaul/opentelemetry', '@opentelemetry/api', '1.3 or a later 1')
}

export const {
  context, diag, metrics, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace,
} = api
