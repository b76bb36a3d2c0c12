// A server under the instrumentation of node:http, as a child process:
// node --import tsx routes-server.ts <express | node>. Requests three paths, and prints its spans and
// the routes of the metric `http.server.request.duration`.
import { once } from 'node:events'
import { createRequire } from 'node:module'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { getRPCMetadata } from '@opentelemetry/core'
import { HttpInstrumentation } from '@opentelemetry/instrumentation-http'
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { context, SpanKind, type Attributes } from '@opentelemetry/api'

process.env['OTEL_SEMCONV_STABILITY_OPT_IN'] = 'http'
const spans = new InMemorySpanExporter()
const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
const instrumentation = new HttpInstrumentation()
instrumentation.setTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }))
instrumentation.setMeterProvider(new MeterProvider({ readers: [reader] }))

const require = createRequire(import.meta.url)
const http = require('node:http') as typeof import('node:http')
const { json, router } = await import('../../../src/index.js')
const { toNode } = await import('../../../adapters/node/index.js')
const { httpRoutes } = await import('../../../adapters/opentelemetry/index.js')

httpRoutes({ getRPCMetadata })
const api = router({ 'GET /tasks/{id}': () => json(200, {}), 'POST /reports': () => json(202, {}) })
const listener: (request: IncomingMessage, response: ServerResponse) => void = process.argv[2] === 'express'
  ? (require('express') as typeof import('express'))().use('/api', toNode(api))
  : toNode(api)
const server: Server = http.createServer(listener).listen(0, '127.0.0.1')
await once(server, 'listening')
const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
for (const [method, path] of [['GET', '/api/tasks/1'], ['GET', '/api/tasks/2'], ['POST', '/api/reports']] as const) {
  await (await fetch(`${origin}${process.argv[2] === 'node' && path.endsWith('1') ? '/tasks/1' : path}`, { method })).arrayBuffer()
}
server.closeAllConnections()
server.close()
await reader.forceFlush()
const metrics = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics).flatMap((scope) => scope.metrics)
const durations = metrics.filter(({ descriptor }) => descriptor.name === 'http.server.request.duration')
const points: readonly { readonly attributes: Attributes }[] = durations.flatMap(
  ({ dataPoints }) => dataPoints as { readonly attributes: Attributes }[],
)
const routes = points.map(({ attributes }) => attributes['http.route']).filter((route) => route !== undefined)
console.log(JSON.stringify({
  spans: spans.getFinishedSpans().filter(({ kind }) => kind === SpanKind.SERVER)
    .map(({ name, attributes }) => ({ name, route: attributes['http.route'] })),
  routes: [...new Set(routes)].sort(),
}))
process.exit()
