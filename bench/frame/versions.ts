import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Returns "Node v22.1.0, fastify 5.1.0, …": the versions of what a table compares. */
export function versionsOf(...names: readonly string[]): string {
  const version = (name: string): string => {
    const [path = ''] = ['..', '../..']
      .map((folder) => join(import.meta.dirname, folder, 'node_modules', name, 'package.json'))
      .filter((path) => existsSync(path))
    return `${name} ${(JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version}`
  }
  return [`Node ${process.version}`, ...names.map(version)].join(', ')
}
