export { collection, type Collection } from './collection.js'
export type { CollectionOptions, IdFormat } from './items.js'
export { cors, type CorsOptions } from './cors.js'
export { list, type ListOptions } from './list.js'
export { resource, type MethodOptions } from './methods.js'
export { strictQuery, type StrictQueryOptions } from './strict-query.js'
export type {
  Call, Outcome, Page, PageRequest, Repository, Update,
} from '../repositories/repository.js'
