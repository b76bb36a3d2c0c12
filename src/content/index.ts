export { content } from './content.js'
export { blobSource, type ContentSource, type FindContent } from './source.js'
export type { Digests } from '../http/headers/digests.js'
