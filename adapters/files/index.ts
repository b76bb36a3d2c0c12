export {
  fileSource, folderSource, type FileFacts, type FileOptions, type FileSourceOptions,
  type FolderSourceOptions, type Symlinks,
} from './sources.js'
export { type FileDigestOptions } from './file-digests.js'
export { FolderBlobs, type FolderBlobsOptions } from './folder-blobs.js'
