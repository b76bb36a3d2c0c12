export {
  fileSource, type FileOptions, type FileFacts, type FileSourceOptions,
} from './file-source.js'
export { type FileDigestOptions } from './file-digests.js'
export { FolderBlobs, type FolderBlobsOptions } from './folder-blobs.js'
export { folderSource, type FolderSourceOptions } from './folder-source.js'
export { type Symlinks } from './place.js'
