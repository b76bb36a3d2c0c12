// background-program.mjs <how>: bulk creates of 10,000 items, one for each message. DATABASE_URL chooses PostgreSQL.
import { bulkJob, PER_BODY, type How } from './background.js'

const job = bulkJob(process.argv[2] as How, process.env['DATABASE_URL'])
process.on('message', () => {
  const before = process.cpuUsage()
  void job.run(PER_BODY).then(() => {
    const { user, system } = process.cpuUsage(before)
    process.send?.({ micros: (user + system) / PER_BODY })
  })
})
process.on('disconnect', () => process.exit())
process.send?.({ ready: true })
