// The primary dies, its synchronous replica is promoted, and the address of the database leads to it.
import { test } from 'node:test'
import { postgresForFile } from '../../servers/postgres-server.js'
import { Site } from './site.js'

test('a server whose PostgreSQL fails over loses no acknowledged task, and serves without a restart', async () => {
  const primary = await postgresForFile({ fsync: true })
  const replica = await postgresForFile({ replicaOf: primary, fsync: true })
  await primary.waitForReplica()
  const site = await Site.start(primary)
  await site.works()
  const path = await site.begun(1500)
  await primary.kill()
  await site.refused()
  await replica.promote()
  site.proxy.moveTo(replica.port)
  await site.survives(path)
  await site.works()
  await site.lostNothing()
})

test('connections to a read-only replica are replaced once the address leads to the primary', async () => {
  const primary = await postgresForFile()
  const replica = await postgresForFile({ replicaOf: primary })
  await primary.waitForReplica()
  const site = await Site.start(primary)
  await site.works()
  const path = await site.begun(500)
  // For a while the address leads to a server that refuses to write.
  site.proxy.moveTo(replica.port)
  await site.everyRequest()
  site.proxy.moveTo(primary.port)
  await site.survives(path)
  await site.works()
  await site.lostNothing()
})
