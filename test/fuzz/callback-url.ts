import assert from 'node:assert/strict'
import { BlockList, isIP } from 'node:net'
import fc from 'fast-check'
import { AddressRules, hostOf, readTarget } from '../../src/callbacks/addresses.js'
import { linear } from './frame/linear.js'
import { mutated } from './frame/mutate.js'
import { outcome } from './frame/rule.js'

const URLS = [
  'https://hooks.example.com/done?id=1', 'http://example.com:8080/', 'https://93.184.216.34/x',
  'http://127.0.0.1/', 'http://localhost:3000', 'http://[::1]/', 'http://[2606:2800:220:1::]/',
  'http://2130706433/', 'http://0x7f.1/', 'http://0177.0.0.1',
  'http://169.254.169.254/latest/meta-data', 'http://user:pw@example.com/',
  'http://example.com@127.0.0.1/', 'http://10.0.0.1.nip.io/', 'http://[::ffff:127.0.0.1]/',
  'http://[64:ff9b::7f00:1]/', 'ftp://example.com/', 'javascript:alert(1)', 'http://ⓛocalhost/',
  'http://example.com./', 'http:\\\\127.0.0.1\\x', 'http://%31%32%37.0.0.1/', '//example.com/x',
  'http://100.64.0.1', 'http://[fd00::1]/', 'http://[2002:7f00:1::]/', 'http://0.0.0.0/',
  'http://192.168.1.1#@example.com/', 'http://example.com\t.evil/', 'HTTP://EXAMPLE.COM/',
]
const PIECES = [
  '127.0.0.1', '@', '#', '?', '/', '\\', ':', '[', ']', '::', '::ffff:', '%2e', '.', '0x7f',
  'localhost', 'http://', '%00', '。', '\t', ' ', '1', '0',
]

/** The same question, asked of the engine's own lists; two, since one that has IPv4 in IPv6 says the same of both. */
const inside4 = new BlockList()
const inside6 = new BlockList()
for (const [net, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const)
  inside4.addSubnet(net, bits, 'ipv4')
for (const [net, bits] of [
  ['::', 3],
  ['fc00::', 7],
  ['fe80::', 10],
  ['ff00::', 8],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['2001::', 32],
] as const)
  inside6.addSubnet(net, bits, 'ipv6')
const isInside = (address: string): boolean =>
  isIP(address) === 4 ? inside4.check(address, 'ipv4') : inside6.check(address, 'ipv6')

const rulesOf = new AddressRules()

export const rules = {
  'nothing leads inside': fc.property(mutated(URLS, PIECES), (text) => {
    const told = outcome(() => readTarget(text, rulesOf))
    if ('refused' in told) {
      assert.match(told.refused.code, /^(?:invalid_callback_url|callback_url_forbidden)$/)
      return
    }
    const url = told.value
    assert.match(url.protocol, /^https?:$/)
    assert.equal(url.username + url.password, '')
    const host = hostOf(url)
    // Read again, as whoever calls it does, it is the same place.
    assert.equal(new URL(url.href).host, url.host)
    assert.equal(new URL(text).host, url.host)
    if (isIP(host) === 0) assert.ok(host.includes('.') && !/(?:^|\.)(?:localhost|local|internal)$/.test(host), host)
    else assert.ok(!isInside(host), host)
  }),
  'an address that is inside is never called': fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (address) => {
    if (isInside(address)) assert.equal(rulesOf.allows(address), false)
  }),
  'takes linear time': linear([...PIECES, 'a'], (text) => { readTarget(`http://${text}`, rulesOf) }),
}
