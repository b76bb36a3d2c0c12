import { compose, type Handler } from 'longhaul'
import { content, type ContentSource } from 'longhaul/content'
import { describe } from 'longhaul/openapi'
import type { Context } from './auth.js'
import { fileOperation, guarded, HOW, textSource } from './console-files.js'

/** The part of the package that the console uses. */
const MODULE = "export { ClientError, createClient, isClientError, isTaskFailed, readPartialResults } from 'longhaul/client'"

let made: Promise<ContentSource> | undefined

/** GET /console/longhaul-client.js: `longhaul/client` as one module for browsers, made of the sources when first asked for. Public. */
export const clientModule: Handler<Context> = compose(guarded, describe<Context>(
  content<Context>(() => made ??= bundle().catch((error: unknown) => {
    // The next request may succeed.
    made = undefined
    throw error
  }), HOW),
  [fileOperation('The client for browsers, as the console uses it', ['text/javascript; charset=utf-8'])],
))

async function bundle(): Promise<ContentSource> {
  // Built on demand, because a start without a browser does not need it.
  const { build, stop } = await import('esbuild')
  try {
    const { outputFiles: [file] } = await build({
      stdin: { contents: MODULE, resolveDir: import.meta.dirname }, bundle: true, write: false,
      format: 'esm', platform: 'browser', target: 'es2022', minify: true, legalComments: 'none', logLevel: 'silent',
    })
    if (!file) throw new Error('esbuild made nothing of longhaul/client')
    return textSource(file.text, 'text/javascript; charset=utf-8')
  } finally {
    await stop()
  }
}
