export { httpSender, type HttpSenderOptions } from './sender.js'
export type { ResolvedAddress, ResolveHost } from './lookup.js'
