import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// `tsup.config.ts` replaces this file in the build by one that contains the texts. So the package reads no file at
// run time, and works in bundles and in CommonJS.

const FOLDER = fileURLToPath(new URL('./page/', import.meta.url))

/** The part of `longhaul/client` that the page uses. */
const CLIENT = 'longhaul-client.js'
const CLIENT_NAMES = 'ClientError, createClient, isTaskFailed, readPartialResults'

let client: string | undefined

/** Names of the files of the page. */
export const assetNames: readonly string[] = [...readdirSync(FOLDER), CLIENT]

/** Returns the text of a file of the page. */
export async function readAsset(name: string): Promise<string> {
  if (name !== CLIENT) return readFileSync(FOLDER + name, 'utf8')
  return client ??= await bundleClient()
}

async function bundleClient(): Promise<string> {
  const { buildSync } = await import('esbuild')
  const { outputFiles: [file] } = buildSync({
    stdin: {
      contents: `export { ${CLIENT_NAMES} } from '../../src/client/index.js'`,
      resolveDir: fileURLToPath(new URL('.', import.meta.url)),
    },
    bundle: true, write: false, format: 'esm', platform: 'browser', target: 'es2022', minify: true,
    legalComments: 'none', logLevel: 'silent',
  })
  if (!file) throw new Error('esbuild has returned no file')
  return file.text
}
