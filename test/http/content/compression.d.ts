declare module 'compression' {
  import type { RequestHandler } from 'express'
  const compression: (options?: { readonly threshold?: number }) => RequestHandler
  export default compression
}
