import * as bullmq from 'bullmq'

/**
 * Returns BullMQ. Application bundlers follow this import. The builds for Node replace this file
 * with load-bullmq.node.ts, which loads BullMQ at the first call.
 */
export function loadBullMQ(): typeof bullmq {
  return bullmq
}
