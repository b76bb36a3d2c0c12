// The order in which a test file ends what it has opened.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, test } from 'node:test'

const releases = pathToFileURL(join(import.meta.dirname, '../../scripts/test-releases.mjs')).href
const file = `
  import { after, describe, test } from 'node:test'
  import { writeSync } from 'node:fs'
  import { releaseAfterFiles, releaseLast } from ${JSON.stringify(releases)}
  const say = (what) => () => { writeSync(2, what + ' ') }
  releaseAfterFiles()
  describe('file', async () => {
    releaseLast(say('database'))
    releaseLast(say('pooler'))
    after(say('worker'))
    describe('suite', () => {
      releaseLast(say('replica'))
      after(say('pool'))
      test('test', () => {})
    })
  })`

function run(text: string) {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  return spawnSync(process.execPath, ['--input-type=module', '-e', text], { env, encoding: 'utf8' })
}

describe('The servers of a test file', () => {
  test('end after all hooks of the file, the last one first', () => {
    const { status, stderr } = run(file)
    assert.equal(stderr.trim(), 'pool worker replica pooler database')
    assert.equal(status, 0)
  })

  test('end even if one of them fails, and fail the file', () => {
    const { status, stderr } = run(file.replace("say('pooler')", "() => { throw new Error('No pooler') }"))
    assert.match(stderr, /^pool worker replica Error: No pooler\n[^]+\ndatabase $/)
    assert.equal(status, 1)
  })
})
