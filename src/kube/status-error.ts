import { isJsonObject } from '../lib/json.ts';
import {
  AlreadyExistsError,
  ConflictError,
  ForbiddenError,
  GoneError,
  InvalidError,
  type KubeError,
  NotFoundError,
  TooLargeError,
  UnavailableError,
} from './errors.ts';

/** etcd's limit, that of the API server's client to etcd, and the API server's own. The first two come as a 500. */
const TOO_LARGE = /etcdserver: request is too large|trying to send message larger than max|Request entity too large/;

/**
 * The error for an answer of the API server, or for the Status in a watch's ERROR event.
 * @param what method and path, for the message
 * @param body the Status object; or whatever text something in between has answered
 * @param write whether the request may have changed something
 */
export function statusError(what: string, status: number, body: unknown, write: boolean): KubeError {
  const said = isJsonObject(body) ? body : {};
  const reason = typeof said.reason === 'string' ? said.reason : '';
  const text =
    typeof said.message === 'string' ? said.message : typeof body === 'string' ? body.slice(0, 200).trim() : '';
  const message = `${what}: ${status}${reason === '' ? '' : ` ${reason}`}${text === '' ? '' : `: ${text}`}`;

  if (status === 413 || TOO_LARGE.test(text)) return new TooLargeError(message, status, reason);
  switch (status) {
    case 401:
    case 403:
      return new ForbiddenError(message, status, reason);
    case 404:
      return new NotFoundError(message, status, reason);
    case 409:
      return reason === 'AlreadyExists'
        ? new AlreadyExistsError(message, status, reason)
        : new ConflictError(message, status, reason);
    case 410:
      return new GoneError(message, status, reason);
    case 429:
      return new UnavailableError(message, status, reason, 'none');
    default:
      return status >= 400 && status < 500
        ? new InvalidError(message, status, reason)
        : new UnavailableError(message, status, reason, write ? 'unknown' : 'none');
  }
}
