import * as croner from 'croner'
import { wrongPeer } from '../../src/runtime/peer.js'

export const Cron = usable(croner)

/** A named import that does not exist would throw a SyntaxError that names no version. */
function usable({ Cron: found }: Partial<typeof croner>): typeof croner.Cron {
  if (typeof found === 'function' && 'getPattern' in found.prototype) return found
  throw wrongPeer('longhaul/cron', 'croner', '6 or later')
}
