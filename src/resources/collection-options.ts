import type { Repository } from '../repositories/repository.js'
import type { Schema } from '../schema/schema.js'
import type { ListOptions } from './list.js'

/** Conversion between ids and path segments. */
export interface IdFormat<Item, Id> {
  /** Reads a percent-decoded path segment. Returns `undefined` if it is not an id: a 404. */
  readonly parse: (text: string) => Id | undefined
  /** Returns the id of a record. */
  readonly of: (item: Item) => Id
}

/** Options of `collection`. */
export interface CollectionOptions<
  Item extends object, Draft = Partial<Item>, Change = Partial<Draft>, Id = string,
>
  extends Omit<ListOptions<Item>, 'repository'> {
  /** The source of the records. Its methods determine the HTTP methods. */
  readonly repository: Repository<Item, Draft, Change, Id>
  /** Schema of the bodies of POST and PUT. The repository gets the validated value. */
  readonly schema: Schema<Draft>
  /**
   * Schema of a patch. The repository gets the validated value. Default: the record with the patch
   * merged into it must satisfy `schema`. The repository then gets the patched members, `null` for
   * a removed one.
   */
  readonly changeSchema?: Schema<Change>
  /** Conversion between ids and paths. Default: text, and the record's member `id`. */
  readonly id?: IdFormat<Item, Id>
  /** Path of the collection, for the handler that does the routing itself. Default `/`. */
  readonly path?: string
  /**
   * Name of the path parameter with the id, if the host routes requests to `item`. Default `id`.
   */
  readonly param?: string
  /**
   * If `true`, PUT, PATCH and DELETE require `If-Match` or `If-None-Match`, so that no client
   * overwrites a change that it has not seen. Without them the answer is 428
   * `precondition_required` (RFC 6585 section 3). Default `false`.
   */
  readonly requirePreconditions?: boolean
  /**
   * Returns the strong entity tag of a record with its quotes, made of its version, for example.
   * Default: a hash of its JSON.
   */
  readonly etag?: (item: Item) => string
  /** Maximum size of a body, in bytes. Default 1 MiB. */
  readonly maxBodyBytes?: number
}
