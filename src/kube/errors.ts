/** What the API server, or the way to it, said. One class per thing that a caller does differently. */
export class KubeError extends Error {
  override name = 'KubeError';
  /** HTTP status, 0 when no answer came. */
  readonly status: number;
  /** `reason` of the server's Status object, for instance `NotFound`; empty when there was none. */
  readonly reason: string;

  constructor(message: string, status: number, reason: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
    this.reason = reason;
  }
}

/** 409: the resourceVersion is not the newest, or a precondition failed. Read again. */
export class ConflictError extends KubeError {
  override name = 'ConflictError';
}

/** 409 with reason AlreadyExists: the name is taken. */
export class AlreadyExistsError extends KubeError {
  override name = 'AlreadyExistsError';
}

/** 404. */
export class NotFoundError extends KubeError {
  override name = 'NotFoundError';
}

/** 410: the resourceVersion or the continue token is too old. List anew. */
export class GoneError extends KubeError {
  override name = 'GoneError';
}

/** 401 or 403. Who can mend it: whoever keeps the cluster's credentials and RBAC. */
export class ForbiddenError extends KubeError {
  override name = 'ForbiddenError';
}

/** 413, or etcd's own limit: the object does not fit. Never retried. */
export class TooLargeError extends KubeError {
  override name = 'TooLargeError';
}

/** 422 or 400: the object or the request is not valid. Never retried. */
export class InvalidError extends KubeError {
  override name = 'InvalidError';
}

/**
 * No answer, a 5xx, or 429 beyond our retries. `outcome` says whether a write may have happened all the same:
 * `none` when the request surely was not carried out, `unknown` otherwise.
 */
export class UnavailableError extends KubeError {
  override name = 'UnavailableError';
  readonly outcome: 'none' | 'unknown';

  constructor(message: string, status: number, reason: string, outcome: 'none' | 'unknown', options?: ErrorOptions) {
    super(message, status, reason, options);
    this.outcome = outcome;
  }
}
