export { fileSource, folderSource } from './sources.js'
export { FolderBlobs } from './folder-blobs.js'
