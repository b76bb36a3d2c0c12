// npm start
import { ConfigError, demoTokens, ownCallbackSecrets, readConfig } from './config.js'
import { startServer } from './server.js'
import { startWorker } from './worker.js'

/** Ends the process soon. Needed only if a connection to a silent server keeps it alive. */
function endSoon(): void {
  setTimeout(() => { process.exit() }, 500).unref()
}

try {
  const config = readConfig(process.env)
  const server = config.worker === 'only' ? undefined : await startServer(config)
  const running = server ?? await startWorker(config)

  const stop = async (): Promise<void> => {
    await running.stop()
    endSoon()
  }
  process.on('SIGTERM', () => { void stop() })
  process.on('SIGINT', () => { void stop() })

  if (config.blobsFolder !== undefined) console.log(`Uploads and reports are in ${config.blobsFolder}; all processes on this Redis have to see it`)
  const demo = server ? demoTokens(config.tokens) : []
  if (demo.length > 0) console.log(`Demo tokens, for trying things out: ${demo.join(', ')}`)
  const secrets = server ? ownCallbackSecrets(config) : []
  if (secrets.length > 0) console.log(`Callbacks are signed with: ${secrets.join(', ')}`)
  console.log(server ? `The reference server is ready at ${server.url}` : 'The worker is ready')
} catch (error) {
  process.exitCode = 1
  endSoon()
  const { code, port } = error as NodeJS.ErrnoException & { port?: number }
  if (error instanceof ConfigError) console.error(error.message)
  else if (code === 'EADDRINUSE') console.error(`Port ${port ?? ''} is taken; set PORT to another one, or to 0 for a free one.`)
  else throw error
}
