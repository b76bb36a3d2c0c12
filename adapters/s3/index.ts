export { S3Blobs } from './s3-blobs.js'
