import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/**
 * Joins two connections: bytes of each go to the other, at the speed of the slower one. Each may
 * end its half; when one fails, or goes before both halves have ended, or nothing moves for
 * `idleMs`, both are reset. Errors of both are taken care of.
 *
 * @param head what `a` had sent already
 */
export function join(a: Duplex, b: Duplex, head: Uint8Array, idleMs: number): void {
  const destroy = (): void => {
    cut(a)
    cut(b)
  }
  const idle = setTimeout(destroy, idleMs).unref()
  const moved = (): void => { idle.refresh() }
  let left = 2
  for (const end of [a, b]) {
    end.on('data', moved)
    end.on('drain', moved)
    end.on('error', destroy)
    end.once('close', () => {
      if (!end.readableEnded || !end.writableFinished) destroy()
      if (--left === 0) clearTimeout(idle)
    })
  }
  if (head.byteLength > 0) b.write(head)
  a.pipe(b)
  b.pipe(a)
}

/** A plain end could pass for a whole transfer. Only bare TCP knows more than that. */
function cut(end: Duplex): void {
  if (end instanceof Socket && !('encrypted' in end) && !end.destroyed) end.resetAndDestroy()
  else end.destroy()
}
