import { peerVersion } from './peer-version.js'

/**
 * Returns the error for an optional package that is installed in a version that does not work. No
 * version range in package.json says so, because npm would then fail to install longhaul beside the
 * package, even if the application does not use this entry point.
 *
 * @param works - versions that work, such as `6 or later`
 * @param version - version that was found. Default: the version that the package states
 */
export function wrongPeer(entry: string, name: string, works: string, version = peerVersion(name)): TypeError {
  const found = version === undefined ? 'the installed version' : `${name} ${version}`
  return new TypeError(`${entry} works with ${name} ${works}, not with ${found}`)
}
