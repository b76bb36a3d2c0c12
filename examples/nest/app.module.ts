import { Module } from '@nestjs/common'
import { LonghaulModule } from 'longhaul/nestjs'
import { OrderImport } from './order-import.js'
import { ReportTask } from './report.task.js'
import { SalesService } from './sales.service.js'
import { Storage, StorageModule } from './storage.js'
import { TasksController } from './tasks.controller.js'

@Module({
  imports: [StorageModule],
  providers: [SalesService, ReportTask, OrderImport],
  exports: [ReportTask, OrderImport],
})
export class SalesModule {}

// #region module
@Module({
  imports: [
    StorageModule,
    SalesModule,
    LonghaulModule.forRootAsync({
      imports: [StorageModule, SalesModule],
      inject: [Storage, ReportTask, OrderImport],
      useFactory: (storage: Storage, report: ReportTask, orders: OrderImport) => ({
        tasks: { ...storage.longhaul, definitions: [report.definition, orders.upload.task] },
        // The global prefix is part of the path: Nest registers each route with its whole path.
        endpoints: { statusPath: '/api/tasks/{id}', owner: ({ context }) => context.user?.id },
      }),
    }),
  ],
  controllers: [TasksController],
})
export class AppModule {}
// #endregion
