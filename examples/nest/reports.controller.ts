import { All, Controller, Inject, Next, Post, Req, Res, UseGuards } from '@nestjs/common'
import type { NextFunction, Request, Response } from 'express'
import type { TaskEndpoints } from 'longhaul'
import { toNode, type NodeHandler } from 'longhaul/node'
import { report } from '../report.js'
import { ENDPOINTS, type HostContext } from './tasks.provider.js'
import { UserGuard } from './user.guard.js'

// #region controller
@Controller()
@UseGuards(UserGuard)
export class ReportsController {
  private readonly submitReport: NodeHandler<HostContext>
  private readonly taskStatus: NodeHandler<HostContext>

  constructor(@Inject(ENDPOINTS) { submit, status }: TaskEndpoints<HostContext>) {
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
