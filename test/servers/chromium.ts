// A real Chromium. @sparticuz/chromium brings it inside its package; nothing else has to be installed.
import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import packed from '@sparticuz/chromium'
import { chromium, type Browser } from 'playwright-core'

/** Somebody who died while unpacking holds nobody up for longer. */
const STALE_MS = 60_000

/** What the package would switch off: the same-origin rules, and a process for each page. */
const LAX = new Set([
  '--single-process', '--no-zygote', '--disable-web-security', '--allow-running-insecure-content',
  '--disable-site-isolation-trials',
])

/** Starts a headless browser, as strict as people have it. The caller closes it. */
export async function openBrowser(): Promise<Browser> {
  return chromium.launch({
    executablePath: await chromiumFile(),
    args: packed.args.filter((arg) => !LAX.has(arg)),
    headless: true,
  })
}

/** Finds the browser. Throws one line if it does not run here. */
export async function chromiumFile(): Promise<string> {
  const file = await unpack()
  const { status } = spawnSync(file, ['--version'], { stdio: 'ignore' })
  if (status !== 0)
    throw new Error('These tests need the Chromium of @sparticuz/chromium, which runs on Linux with glibc')
  return file
}

/** Unpacks the browser where it is not yet: one at a time, since a half-written one would be started. */
async function unpack(): Promise<string> {
  const lock = join(tmpdir(), 'longhaul-chromium.lock')
  for (;;) {
    try {
      mkdirSync(lock)
      break
    } catch {
      const since = statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()
      if (Date.now() - since > STALE_MS) rmSync(lock, { recursive: true, force: true })
      await sleep(50)
    }
  }
  try {
    return await packed.executablePath()
  } finally {
    rmSync(lock, { recursive: true, force: true })
  }
}
