export { collection, type Collection } from './collection.js'
export type { CollectionOptions, IdFormat } from './collection-options.js'
export { cors, type CorsOptions } from './cors.js'
export { list, type ListOptions } from './list.js'
export { resource, type ResourceOptions } from './resource.js'
export { strictQuery, type StrictQueryOptions } from './strict-query.js'
export type {
  Call, Outcome, Page, PageRequest, Repository, Update,
} from '../repositories/repository.js'
