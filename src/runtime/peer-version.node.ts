/** `require`, set by tsup.config.ts. */
declare const nodeRequire: NodeJS.Require

/** Returns the version of an installed package, if it lets its package.json be read. */
export function peerVersion(name: string): string | undefined {
  try {
    const { version } = nodeRequire(`${name}/package.json`) as { readonly version?: string }
    return version
  } catch {
    return undefined
  }
}
