import { All, Controller, Inject, Next, Post, Req, Res, UseGuards } from '@nestjs/common'
import type { NextFunction, Request, Response } from 'express'
import type { TaskEndpoints } from 'longhaul'
import { TASK_ENDPOINTS, type NestContext } from 'longhaul/nestjs'
import { toNode, type NodeHandler } from 'longhaul/node'
import { report } from '../report.js'
import { UserGuard } from './user.guard.js'

// #region controller
@Controller()
@UseGuards(UserGuard)
export class ReportsController {
  private readonly submitReport: NodeHandler<NestContext>
  private readonly taskStatus: NodeHandler<NestContext>

  constructor(@Inject(TASK_ENDPOINTS) { submit, status }: TaskEndpoints<NestContext>) {
    this.submitReport = toNode(submit(report))
    this.taskStatus = toNode(status)
  }

  @Post('reports')
  submit(@Req() req: Request, @Res() res: Response, @Next() next: NextFunction): void {
    this.submitReport(req, res, next)
  }

  @All('tasks/:id')
  status(@Req() req: Request, @Res() res: Response, @Next() next: NextFunction): void {
    this.taskStatus(req, res, next)
  }
}
// #endregion
