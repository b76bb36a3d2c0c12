// examples/approval, as its reader starts it: the agent asks, waits for the answer, and writes its draft once.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createClient } from 'longhaul/client'
import { ServerProcess, stopAfterwards } from '../kit/process.js'
import { program } from '../../servers/program.js'

stopAfterwards()

for (const isAllowed of [true, false]) {
  test(`The agent of examples/approval sends a mail only after a yes: ${isAllowed ? 'yes' : 'no'}`, async () => {
    const server = new ServerProcess(process.execPath, program('examples/approval/main.ts'), { PORT: '0' })
    const url = await server.url()
    assert.match(await (await fetch(url)).text(), /<form id="approve"/)
    const task = await createClient({ baseUrl: url }).submit<{ sent: boolean }>('/agents', { goal: 'come at nine' })
    const questions: string[] = []
    const result = await task.result({
      onInput: ({ approve }) => {
        questions.push(approve?.message ?? '')
        return { approve: { send: isAllowed } }
      },
    })
    assert.deepEqual(
      [result, questions],
      [{ sent: isAllowed }, ['To bob@example.com: Dear Bob, come at nine. Yours, the agent']],
    )
    assert.equal(server.out.match(/The agent writes/g)?.length, 1)
    if (isAllowed) await server.said(/Sent to bob/)
    else assert.doesNotMatch(server.out, /Sent to bob/)
  })
}
