// npm start
import { ConfigError, demoTokens, readConfig } from './config.js'
import { startServer } from './server.js'

try {
  const config = readConfig(process.env)
  const server = await startServer(config)

  const stop = (): void => { void server.stop() }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)

  const demo = demoTokens(config.tokens)
  if (demo.length > 0) console.log(`Demo tokens, for trying things out: ${demo.join(', ')}`)
  console.log(`The reference server is ready at ${server.url}`)
} catch (error) {
  process.exitCode = 1
  const { code, port } = error as NodeJS.ErrnoException & { port?: number }
  if (error instanceof ConfigError) console.error(error.message)
  else if (code === 'EADDRINUSE') console.error(`Port ${port ?? ''} is taken; set PORT to another one, or to 0 for a free one.`)
  else throw error
}
