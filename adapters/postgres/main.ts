#!/usr/bin/env node
import { runCommand } from './command.js'

// The reader of a pipe may end first, such as `head`.
process.stdout.on('error', () => undefined)
const { output, exitCode } = await runCommand(process.argv.slice(2), process.env)
;(exitCode === 0 ? process.stdout : process.stderr).write(output)
process.exitCode = exitCode
