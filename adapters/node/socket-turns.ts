import { AsyncResource } from 'node:async_hooks'
import type { Duplex } from 'node:stream'
import { currentResponse } from './host.js'
import type { NodeServer } from './limit-sending.js'

/** Node's error for a request that it could not parse, or that took too long. */
export interface ParseFailure extends Error {
  readonly code?: string
  readonly rawPacket?: Buffer
  readonly bytesParsed?: number
}

type Act = () => void

/**
 * Makes the events without a response object (`connect`, `upgrade`, `clientError`) wait until the
 * responses to earlier requests of their connection have been sent. So a connection has one owner
 * at a time. Applies to all listeners, because listeners that are added later own the socket too.
 * @returns a function that restores the server
 */
export function takeTurns(server: NodeServer): () => void {
  const own = Object.getOwnPropertyDescriptor(server, 'emit')
  const emit = server.emit.bind(server)
  const waiting = new WeakSet<Duplex>()
  const waits = (event: string, first: unknown, socket: Duplex, act: () => boolean): boolean => {
    const failure = event === 'clientError' ? first as ParseFailure : undefined
    if (failure === undefined && event !== 'connect' && event !== 'upgrade') return false
    if (waiting.has(socket)) return true
    if (failure ? !isBehindWhole(failure, socket) : !currentResponse(socket)) return false
    waiting.add(socket)
    const bound = AsyncResource.bind(() => {
      waiting.delete(socket)
      // The listener has been removed meanwhile, so nobody owns the connection.
      if (!act()) socket.destroy()
    })
    if (failure) whenWhole(failure, socket, bound)
    else hold(socket, bound)
    return true
  }
  const emitInTurn = (...args: [event: string, first?: unknown, second?: unknown, head?: unknown]): boolean => {
    const act = (): boolean => emit(...args)
    return waits(args[0], args[1], args[2] as Duplex, act) || act()
  }
  server.emit = emitInTurn
  return () => {
    if (Object.getOwnPropertyDescriptor(server, 'emit')?.value !== emitInTurn) return
    if (own) Object.defineProperty(server, 'emit', own)
    else Reflect.deleteProperty(server, 'emit')
  }
}

/** Calls `act` once no response is being sent on a connection, unless the connection has ended. */
function whenFree(socket: Duplex, act: Act): void {
  const current = currentResponse(socket)
  if (current === undefined) act()
  else current.once('close', () => { if (socket.writable) whenFree(socket, act) })
}

/**
 * Returns true if the request that is being answered is complete, so the failure belongs to a later
 * request.
 */
function isBehindWhole({ code }: ParseFailure, socket: Duplex): boolean {
  return code !== 'ECONNRESET' && currentResponse(socket)?.req.complete === true
}

function whenWhole(failure: ParseFailure, socket: Duplex, act: Act): void {
  if (!isBehindWhole(failure, socket)) act()
  else currentResponse(socket)?.once('close', () => { if (socket.writable) whenWhole(failure, socket, act) })
}

/**
 * Keeps a connection that Node has left to the listeners of `connect` or `upgrade` until it is
 * their turn. Node has removed its own listeners, so this function does what the responses before
 * need.
 */
function hold(socket: Duplex, act: Act): void {
  const drained = (): void => {
    const current = currentResponse(socket)
    if (current?.writableNeedDrain === true) current.emit('drain')
  }
  const left = (): void => { socket.end() }
  // A reset without a listener would end the process.
  socket.on('error', ignore).on('drain', drained).on('end', left)
  // A socket reports its end only if it is read.
  socket.on('readable', ignore)
  whenFree(socket, () => {
    socket.off('drain', drained).off('end', left).off('readable', ignore)
    act()
  })
}

function ignore(): void {}
