import { Module } from '@nestjs/common'
import { memory } from 'longhaul/memory'
import { LonghaulModule } from 'longhaul/nestjs'
import { report } from '../report.js'
import { ReportsController } from './reports.controller.js'

// #region module
@Module({
  imports: [
    LonghaulModule.forRoot({
      tasks: { ...memory(), definitions: [report] },
      // The global prefix is part of the path: Nest registers each route with its whole path.
      endpoints: { statusPath: '/api/tasks/{id}', owner: ({ context }) => context.user?.id },
    }),
  ],
  controllers: [ReportsController],
})
export class AppModule {}
// #endregion
