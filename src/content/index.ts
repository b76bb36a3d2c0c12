export { content, type ContentOptions } from './content.js'
export type { ContentCoding } from './response.js'
export { blobSource, type ContentSource, type FindContent } from './source.js'
export { type DigestAlgorithm, type Digests } from '../http/fields/digests.js'
