import type { Repository } from '../repositories/repository.js'
import type { Schema } from '../schema/schema.js'
import type { ListOptions } from './list.js'

/** How the names of records are written in paths. */
export interface IdFormat<Item, Id> {
  /**
   * Reads a path segment, percent-decoded already; `undefined` for what can name no record: a 404.
   */
  readonly parse: (text: string) => Id | undefined
  /** What names this record. */
  readonly of: (item: Item) => Id
}

/** What `collection` takes. */
export interface CollectionOptions<Item extends object, Draft = Partial<Item>, Change = Partial<Draft>, Id = string>
  extends Omit<ListOptions<Item>, 'repository'> {
  /** Where the records are. The methods that it has decide which HTTP methods there are. */
  readonly repository: Repository<Item, Draft, Change, Id>
  /** What POST and PUT must send; what comes out of it is written. */
  readonly schema: Schema<Draft>
  /**
   * What a patch must be; what comes out of it is the change. Default: the record with the patch
   * merged into it has to satisfy `schema`, and the change has the patched members as they are
   * then, `null` for one that was removed.
   */
  readonly changeSchema?: Schema<Change>
  /** How ids are written in paths. Default: text, and the record's member `id`. */
  readonly id?: IdFormat<Item, Id>
  /** The path of the collection, for the handler that does the routing itself. Default `/`. */
  readonly path?: string
  /**
   * The name of the path parameter that names the record, where routes of the host lead to `item`.
   * Default `id`.
   */
  readonly param?: string
  /**
   * Whether PUT, PATCH and DELETE must say `If-Match` or `If-None-Match`, so that nobody overwrites
   * what they have not seen: else 428 `precondition_required` (RFC 6585 section 3). Default
   * `false`.
   */
  readonly requirePreconditions?: boolean
  /**
   * The strong entity tag of a record, with its quotes: of its version, say. Default: made of its
   * JSON.
   */
  readonly etag?: (item: Item) => string
  /** Bytes of a body, at most. Default 1 MiB. */
  readonly maxBodyBytes?: number
}
