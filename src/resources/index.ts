export { collection, type Collection } from './collection.js'
export type { CollectionOptions } from './items.js'
export { cors } from './cors.js'
export { list } from './list.js'
export { resource } from './methods.js'
export { strictQuery } from './strict-query.js'
export type {
  Call, Outcome, Page, PageRequest, Repository, Update,
} from '../repositories/repository.js'
