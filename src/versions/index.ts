export { versionNeutral, versions, type VersionOptions, type VersionUse } from './versions.js'
export {
  byHeader, byMediaTypeParameter, byPath, byQuery, byVendorMediaType, type Selector,
} from './selectors.js'
export { deprecated } from './deprecation.js'
