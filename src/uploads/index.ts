export {
  resumableUpload, type ResumableUpload, type ResumableUploadOptions,
} from './resumable-upload.js'
