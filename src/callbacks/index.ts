export { callbacks, type CallbackEvent } from './callbacks.js'
export { httpSender, type HttpSenderOptions } from './http-sender.js'
export type { ResolvedAddress, ResolveHost } from './lookup.js'
export type {
  CallbackOptions, CallbackReply, CallbackRequest, CallbackSender, SendFault,
} from './options.js'
