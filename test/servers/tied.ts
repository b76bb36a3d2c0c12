import { spawnSync } from 'node:child_process'

/**
 * Start of a command line. The process ends when the test process ends, also if that is killed.
 * Empty where `setpriv` is missing.
 */
export const TIED: readonly string[] =
  spawnSync('setpriv', ['--pdeathsig', 'KILL', 'true']).status === 0
    ? ['setpriv', '--pdeathsig', 'KILL']
    : []
