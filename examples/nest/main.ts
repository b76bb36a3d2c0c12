// npx tsx examples/nest/main.ts
// curl -i -H 'X-Demo-User: ann' -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/api/reports
import 'reflect-metadata'
import { Logger } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { reportErrorsTo } from 'longhaul'
import { AppModule } from './app.module.js'

const logger = new Logger('longhaul')
reportErrorsTo((error, { request, task }) => {
  const about = task === undefined ? `${request?.method} ${request?.path}` : `${task.name} ${task.taskId}`
  logger.error(about, error instanceof Error ? error.stack : error)
})

const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] })
app.setGlobalPrefix('api')
app.enableShutdownHooks()
await app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1')
console.log(`Ready at ${await app.getUrl()}`)
