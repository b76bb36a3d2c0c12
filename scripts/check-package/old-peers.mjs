// Checks that the package installs beside old majors of its optional peers, and what its entry points do there.
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { check, consumer, manifest, root, run } from './run.mjs'

/** The oldest majors that work. The program old-peers.mjs uses them. */
const WORKING = {
  '@aws-sdk/client-s3': '3.300.0', '@nestjs/common': '10', '@nestjs/core': '10', '@opentelemetry/api': '1.3.0',
  bullmq: '5', croner: '6', fastify: '4', ioredis: '5', koa: '2', pg: '8.0.0', 'reflect-metadata': '0.2', rxjs: '7',
  'stream-json': '2'
}
/** Versions that are too old. The program wrong-peers.mjs reads what the entry points say. */
const TOO_OLD = {
  '@aws-sdk/client-s3': '3.100.0', '@nestjs/common': '7', '@opentelemetry/api': '1.2.0', bullmq: '2', croner: '5',
  fastify: '3', ioredis: '4', koa: '1', pg: '7', 'reflect-metadata': '0.1', rxjs: '6', 'stream-json': '1'
}

/** @param {string} tarball */
export async function checkOldPeers(tarball) {
  const named = Object.entries(manifest.peerDependencies).filter(([, range]) => range !== '*')
  check('npm may install every version of an optional peer', named.length === 0, named.join(', '))
  await Promise.all([
    beside('old peers work', WORKING, 'old-peers.mjs', tarball),
    beside('peers that are too old are named', TOO_OLD, 'wrong-peers.mjs', tarball)
  ])
}

async function beside(title, peers, program, tarball) {
  const cwd = join(consumer, program.replace('.mjs', ''))
  mkdirSync(cwd)
  const dependencies = { ...peers, longhaul: `file:${tarball}` }
  writeFileSync(join(cwd, 'package.json'), JSON.stringify({ name: 'consumer', private: true, dependencies }))
  cpSync(join(root, 'test/package/consumer', program), join(cwd, program))
  const options = ['--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts', '--legacy-peer-deps=false']
  await run(`install: ${title}`, 'npm', ['install', ...options], { cwd })
  await run(`npm ls: ${title}`, 'npm', ['ls'], { cwd })
  await run(title, process.execPath, [program], { cwd })
}
