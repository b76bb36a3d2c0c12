import { Injectable } from '@nestjs/common'
import { setTimeout as sleep } from 'node:timers/promises'

/** Stands for the services of your application. */
@Injectable()
export class SalesService {
  private readonly orders: object[] = []

  /** Computes the sales of a month, which takes its time. */
  async ofMonth(year: number, month: number, signal: AbortSignal): Promise<number> {
    await sleep(250, undefined, { signal })
    return (year + month) % 100
  }

  /** Adds orders. A run may add the same ones again. */
  add(orders: readonly object[]): void {
    this.orders.push(...orders)
  }
}
