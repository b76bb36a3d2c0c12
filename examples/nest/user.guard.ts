import { type CanActivate, type ExecutionContext, Injectable, UnauthorizedException } from '@nestjs/common'
import type { Request } from 'express'

export interface User { readonly id: string }

/** Stands for the guard of your application, such as `AuthGuard('jwt')`: it sets `request.user`. */
@Injectable()
export class UserGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<Request & { user?: User }>()
    const id = request.get('x-demo-user')
    if (id === undefined) throw new UnauthorizedException()
    request.user = { id }
    return true
  }
}
