// The names that an `@example` of a docstring may use without declaring them. They stand for what an
// application has: its server, its users, and what it made with longhaul. Never loaded, only compiled.
import type { Express, Request as ExpressRequest } from 'express'
import type { FastifyInstance } from 'fastify'
import type { Redis } from 'ioredis'
import type Koa from 'koa'
import type { EngineSettings, Runner } from 'longhaul/conformance'
import type { Client } from 'longhaul/client'
import type { TaskEngine } from 'longhaul/engine'
import type { AnyTaskDefinition, Handler, HttpRequest, Schema, TaskDefinition, TaskEndpoints, Tasks } from 'longhaul'
import type { memory } from 'longhaul/memory'
import type { Scheme } from 'longhaul/policies'
import type { Repository } from 'longhaul/resources'
import type { Blobs, Store } from 'longhaul/stores'
import type { Server } from 'node:http'
import type { Pool } from 'pg'

/** A record of the application. */
export interface User { readonly id: string, readonly name: string, readonly role: string }

/**
 * The host's server. `app` is Express; in the examples of the bindings of Fastify and Koa, it is
 * `fastifyApp` or `koaApp`.
 */
export declare const app: Express
export declare const fastifyApp: FastifyInstance
export declare const koaApp: Koa
export declare const server: Server
/** A request of Express, with the user whom the host has authenticated. */
export declare const req: ExpressRequest & { readonly user?: User }
export declare const user: User
export declare const users: readonly User[]

/** A handler of the application, and a request to it. */
export declare const handler: Handler
export declare const request: HttpRequest

/** A definition with typed input, the tasks that know it, and their endpoints. */
export declare const report: TaskDefinition<{ year: number }, { message: string }>
export declare const definitions: readonly AnyTaskDefinition[]
export declare const tasks: Tasks
export declare const endpoints: TaskEndpoints
export declare const submit: TaskEndpoints['submit']
export declare const status: TaskEndpoints['status']

/** Storage. */
export declare const engine: ReturnType<typeof memory>
export declare const store: Store
export declare const blobs: Blobs
export declare const client: Redis
export declare const pool: Pool

/** The application's records, and the rules for them. */
export declare const repository: Required<Repository<User, Omit<User, 'id'>>>
export declare const schema: Schema<Omit<User, 'id'>>
export declare const schemes: readonly Scheme[]

/** Services of the application. */
export declare const logger: { error(error: unknown): void }
export declare const cache: { get(key: string): Promise<string> }
export declare const url: string
export declare function secretsOf(owner: string | undefined): Promise<string[]>

/** A file that a user has chosen, and a client of the application's own API. */
export declare const film: Blob
export declare const api: Client

/** A test runner, and what opens a fresh adapter for each test. */
export declare const runner: Runner
export declare function openStore(): Promise<Store>
export declare function openEngine(settings: EngineSettings): Promise<TaskEngine>
export declare function openBlobs(): Promise<Blobs>
/** A provider of NestJS. */
export declare class Database { readonly pool: Pool }
