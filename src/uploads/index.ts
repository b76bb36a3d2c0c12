export type { ResumableUploadOptions } from './options.js'
export { resumableUpload, type ResumableUpload } from './resumable-upload.js'
