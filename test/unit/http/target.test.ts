import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { cleanMountPath, splitTarget } from '../../../src/http/request.js'

describe('splitTarget, RFC 9112 section 3.2', () => {
  const cases: [target: string, path: string, search: string][] = [
    ['/', '/', ''],
    ['/a/b?c=d', '/a/b', '?c=d'],
    ['/a?', '/a', '?'],
    ['/a??b', '/a', '??b'],
    ['http://host/a?b', '/a', '?b'],
    ['http://host', '/', ''],
    ['http://host?b', '/', '?b'],
    ['https://host:1/a://b', '/a://b', ''],
    // A path that has an address in it is a path.
    ['/http://host/a', '/http://host/a', ''],
    ['/to?url=http://host/a', '/to', '?url=http://host/a'],
    ['http:///a?b', '/a', '?b'],
    ['*', '*', ''],
    ['host:443', 'host:443', ''],
  ]
  for (const [target, path, search] of cases) {
    test(target, () => { assert.deepEqual(splitTarget(target), { path, search }) })
  }
})

test('a mount path has a slash at its beginning, and none at its end', () => {
  assert.deepEqual(['', '/', '//', '/a', '/a/', '/a/b//'].map(cleanMountPath), ['', '', '', '/a', '/a', '/a/b'])
  for (const path of ['a', 'a/', 'http://host/'])
    assert.throws(() => cleanMountPath(path), { name: 'TypeError', message: /write "\/"?/ })
})
