declare module 'compression' {
  import type { RequestHandler } from 'express'
  function compression(options?: { readonly threshold?: number }): RequestHandler
  export = compression
}
