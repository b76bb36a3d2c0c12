// npx tsx examples/nest/main.ts
// curl -i -H 'X-Demo-User: ann' -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/api/reports
import 'reflect-metadata'
import { NestFactory } from '@nestjs/core'
import { AppModule } from './app.module.js'

// #region main
const app = await NestFactory.create(AppModule, { logger: ['error', 'warn'] })
app.setGlobalPrefix('api')
app.enableShutdownHooks()
await app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1')
console.log(`Ready at ${await app.getUrl()}`)
// #endregion
