export { blobSource } from './blob-source.js'
export { content, type ContentOptions } from './content.js'
export { type ContentCoding } from './coded.js'
export { type ContentSource, type FindContent } from './source.js'
