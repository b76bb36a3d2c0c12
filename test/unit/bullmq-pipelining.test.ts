import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { checkPipelining } from '../../adapters/bullmq/connection.js'

test('a connection with enableAutoPipelining is warned about once, whether options or a client', async () => {
  const warnings: Error[] = []
  process.on('warning', (warning) => warnings.push(warning))
  checkPipelining({ host: '127.0.0.1' })
  checkPipelining({ host: '127.0.0.1', enableAutoPipelining: false })
  const warned = once(process, 'warning')
  checkPipelining({ options: { enableAutoPipelining: true } })
  await warned
  checkPipelining({ host: '127.0.0.1', enableAutoPipelining: true })
  const last = once(process, 'warning')
  process.emitWarning('the last one')
  await last
  assert.deepEqual(warnings.map(({ name, message }) => [name, message.slice(0, 49)]), [
    ['LonghaulWarning', 'BullMQQueue: the connection has enableAutoPipelin'],
    ['Warning', 'the last one'],
  ])
})
