/** For application bundlers, which put no package.json into a bundle. peer-version.node.ts replaces this file. */
export function peerVersion(_name: string): string | undefined {
  return undefined
}
