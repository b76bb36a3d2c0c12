export { callbacks } from './callbacks.js'
export { httpSender, type HttpSenderOptions } from './sender.js'
export type { ResolvedAddress, ResolveHost } from './lookup.js'
export type { CallbackOptions, CallbackReply, CallbackRequest, CallbackSender, SendFault } from '../../src/callbacks/index.js'
