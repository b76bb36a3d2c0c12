export { callbacks, type CallbackEvent } from './callbacks.js'
export { httpSender } from './http-sender.js'
export type { CallbackOptions, CallbackReply, CallbackRequest, CallbackSender } from './options.js'
