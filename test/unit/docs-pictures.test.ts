import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { DIGEST_FILE, digestOfPages, PICTURES } from '../pictures/sources.js'

const docs = join(import.meta.dirname, '..', '..', 'docs')

test('The pictures of the console and of the page in the guide show their sources: run npm run pictures after a change', () => {
  assert.equal(readFileSync(DIGEST_FILE, 'utf8'), `${digestOfPages()}\n`)
  assert.deepEqual(PICTURES.filter((name) => !existsSync(join(docs, name))), [])
})
