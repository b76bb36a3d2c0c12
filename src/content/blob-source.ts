import { httpError } from '../http/errors.js'
import type { Digests } from '../http/fields/digests.js'
import { checkNames } from '../runtime/option-names.js'
import type { Blobs } from '../stores/blobs.js'
import type { ContentSource } from './source.js'

/**
 * Opens a blob as a source, so that reports and the like can be resumed; `undefined` if there is
 * none. If the blob is replaced before it is read, the client gets 503 and may retry at once.
 *
 * @example
 * content(() => blobSource(blobs, 'report'))
 */
export async function blobSource(
  blobs: Blobs, key: string, options: {
    /** Media type. Default: `application/octet-stream`. */
    readonly type?: string,
    /** File name, for `Content-Disposition`. Default: none. */
    readonly name?: string,
    /** Digests of the content in base64, for `Repr-Digest`. Default: none are known. */
    readonly digests?: Digests,
  } = {},
): Promise<ContentSource | undefined> {
  checkNames('blobSource', options, { type: 0, name: 0, digests: 0 })
  const { type, name, digests } = options
  const info = await blobs.stat(key)
  if (info === undefined) return undefined
  const { size, etag } = info
  return {
    size, etag, name, digests,
    ...(type !== undefined && { type }),
    open: async (start, end) => {
      const content = await blobs.open(key, { start, end, etag })
      if (content === undefined) {
        throw httpError('service_unavailable', { headers: { 'retry-after': '1' } })
      }
      return content
    },
  }
}
