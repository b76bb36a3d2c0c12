// npx tsx examples/approval/main.ts
// An agent that wants to send a mail, and asks first. Start it, open the printed address, and answer. With DATABASE_URL
// set, stop it while the question waits, and start it again: the question is still there.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createTasks, defineTask, jsonSchema, router, stream, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'

const url = process.env['DATABASE_URL']
const { engine, store } = url === undefined ? memory() : postgres({ pool: new pg.Pool({ connectionString: url }) })

interface Mail {
  readonly to: string
  readonly text: string
}

/** Stands for a model, which takes its time and costs money. */
async function draftOf(goal: string): Promise<Mail> {
  console.log(`The agent writes a mail: ${goal}`)
  await new Promise((resolve) => { setTimeout(resolve, 500) })
  return { to: 'bob@example.com', text: `Dear Bob, ${goal}. Yours, the agent` }
}

/** Stands for your mail server. */
async function send({ to, text }: Mail): Promise<void> {
  console.log(`Sent to ${to}: ${text}`)
}

const agent = defineTask({
  name: 'agent',
  input: jsonSchema<{ goal: string }>({
    type: 'object', required: ['goal'], properties: { goal: { type: 'string', maxLength: 500 } },
  }),
  checkpoint: jsonSchema<Mail>({ type: 'object', required: ['to', 'text'] }),
  asks: {
    approve: jsonSchema<{ send: boolean, text?: string }>({
      type: 'object', required: ['send'], additionalProperties: false,
      properties: { send: { type: 'boolean' }, text: { type: 'string', maxLength: 2000 } },
    }),
  },
  run: async ({ goal }, { ask, checkpoint }) => {
    // The run after the answer finds the draft, and does not write another one.
    const draft = checkpoint.value ?? await draftOf(goal)
    await checkpoint.save(draft)
    const answer = await ask('approve', { message: `To ${draft.to}: ${draft.text}` })
    if (!answer.send) return { sent: false }
    await send({ ...draft, text: answer.text ?? draft.text })
    return { sent: true }
  },
})

const tasks = createTasks({ engine, store, definitions: [agent] })
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

const PAGE = `<!doctype html>
<meta charset="utf-8"><title>Approval</title>
<form id="start"><input name="goal" value="invite Bob to the meeting" size="40"><button>Start</button></form>
<form id="approve" hidden>
  <p></p><button value="true">Send it</button> <button value="false">Do not send it</button>
</form>
<pre></pre>
<script>
const [start, approve] = document.forms
const json = { 'content-type': 'application/json' }
let events
function follow(path) {
  events?.close()
  events = new EventSource(path)
  events.onmessage = ({ data }) => {
    const { status, message, inputs, result } = JSON.parse(data)
    document.querySelector('pre').textContent = message + (result ? ' ' + JSON.stringify(result) : '')
    approve.hidden = status !== 'input_required'
    if (inputs) approve.querySelector('p').textContent = inputs.approve.message
    if (result) events.close()
  }
}
start.onsubmit = async (event) => {
  event.preventDefault()
  const body = JSON.stringify({ goal: start.goal.value })
  const response = await fetch('/agents', { method: 'POST', body, headers: { ...json, prefer: 'respond-async' } })
  location.hash = response.headers.get('location')
  follow(location.hash.slice(1))
}
approve.onsubmit = async (event) => {
  event.preventDefault()
  const body = JSON.stringify({ approve: { send: event.submitter.value === 'true' } })
  await fetch(location.hash.slice(1) + '/input', { method: 'POST', body, headers: json })
}
if (location.hash !== '') follow(location.hash.slice(1))
</script>
`

const handler = router({
  'GET /': () => stream(200, (async function* () { yield PAGE })(), { 'content-type': 'text/html; charset=utf-8' }),
  'POST /agents': endpoints.submit(agent),
  'GET|HEAD|DELETE /tasks/{id}': endpoints.status,
  'POST /tasks/{id}/input': endpoints.input,
})

const server = createServer(toNode(handler)).listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`Ready at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
