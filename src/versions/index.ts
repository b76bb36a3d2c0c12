export {
  versionNeutral, versions, type VersionOptions, type VersionsOptions, type VersionUse,
} from './versions.js'
export {
  byHeader, byMediaTypeParameter, byPath, byQuery, byVendorMediaType, type Asked, type Candidate,
  type Selector,
} from './selectors.js'
export { deprecated, type DeprecationOptions } from './deprecation.js'
