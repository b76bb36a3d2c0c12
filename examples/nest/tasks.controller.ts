import { All, Controller, Inject, Next, Req, Res, UseGuards } from '@nestjs/common'
import type { NextFunction, Request, Response } from 'express'
import { router, type TaskEndpoints } from 'longhaul'
import { TASK_ENDPOINTS, type NestContext } from 'longhaul/nestjs'
import { toNode, type NodeHandler } from 'longhaul/node'
import { resumableUpload } from 'longhaul/uploads'
import { OrderImport } from './order-import.js'
import { ReportTask } from './report.task.js'
import { Storage } from './storage.js'
import { UserGuard } from './user.guard.js'

@Controller()
@UseGuards(UserGuard)
export class TasksController {
  private readonly handle: NodeHandler<NestContext>

  constructor(
    @Inject(TASK_ENDPOINTS) endpoints: TaskEndpoints<NestContext>,
    @Inject(ReportTask) report: ReportTask,
    @Inject(OrderImport) orders: OrderImport,
    @Inject(Storage) { longhaul: { blobs, store } }: Storage,
  ) {
    const uploads = resumableUpload(orders.upload.handler(endpoints), {
      blobs, store, owner: ({ context }) => context.user?.id, uploadPath: '/api/uploads/{id}',
    })
    this.handle = toNode(router({
      'POST /api/reports': endpoints.submit(report.definition),
      'GET|HEAD /api/tasks': endpoints.list,
      'GET|HEAD|DELETE /api/tasks/{id}': endpoints.status,
      'POST|OPTIONS /api/orders': uploads.create,
      'GET|HEAD|PATCH|DELETE|OPTIONS /api/uploads/{id}': uploads.resource,
    }))
  }

  // Nest calls the guard for requests to these paths. The router above chooses the handler.
  @All(['reports', 'tasks', 'tasks/:id', 'orders', 'uploads/:id'])
  all(@Req() req: Request, @Res() res: Response, @Next() next: NextFunction): void {
    this.handle(req, res, next)
  }
}
