import * as bullmq from 'bullmq'

/** For application bundlers. The builds for Node replace this file with load-bullmq.node.ts. */
export function loadBullMQ(): typeof bullmq {
  return bullmq
}
