import { spawnSync } from 'node:child_process'

const isThere = spawnSync('setpriv', ['--pdeathsig', 'KILL', 'true']).status === 0

/**
 * Start of a command line. The process gets a signal when the test process ends, also if that is killed.
 * Empty where `setpriv` is missing.
 */
export function tiedBy(signal: 'KILL' | 'TERM'): readonly string[] {
  return isThere ? ['setpriv', '--pdeathsig', signal] : []
}

export const TIED = tiedBy('KILL')
