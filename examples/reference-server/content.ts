import { content } from 'longhaul/content'
import type { Handler } from 'longhaul'
import { LARGE_FILE_BYTES, largeFile } from './large-file.js'
import type { Context } from './auth.js'

/** SPEC 4.5: the large file, whole or in parts. Its bytes never change, nor do its ETag and its date. */
export const largeFileContent: Handler<Context> = content<Context>({
  size: LARGE_FILE_BYTES,
  type: 'application/octet-stream',
  name: 'large-file.bin',
  etag: `"large-file-1-${LARGE_FILE_BYTES}"`,
  digests: { 'sha-256': 'lkg0ZSItZB57E1W1YqlfSQZb9iUgGppluYCrG15FqCA=' },
  lastModified: Date.UTC(2026, 0, 1),
  open: largeFile,
}, { disposition: 'attachment', cacheControl: 'private, no-cache' })
