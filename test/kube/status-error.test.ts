import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  AlreadyExistsError,
  ConflictError,
  ForbiddenError,
  GoneError,
  InvalidError,
  NotFoundError,
  TooLargeError,
  UnavailableError,
} from '../../src/kube/errors.ts';
import { statusError } from '../../src/kube/status-error.ts';

const rows = [
  [400, { reason: 'BadRequest', message: 'unknown field "spec.x"' }, InvalidError],
  [401, { reason: 'Unauthorized' }, ForbiddenError],
  [403, { reason: 'Forbidden' }, ForbiddenError],
  [404, { reason: 'NotFound' }, NotFoundError],
  [405, { reason: 'MethodNotAllowed' }, InvalidError],
  [409, { reason: 'AlreadyExists' }, AlreadyExistsError],
  [409, { reason: 'Conflict' }, ConflictError],
  [410, { reason: 'Expired' }, GoneError],
  [413, 'Request entity too large: limit is 3145728', TooLargeError],
  [415, { reason: 'UnsupportedMediaType' }, InvalidError],
  [422, { reason: 'Invalid' }, InvalidError],
  [429, { reason: 'TooManyRequests' }, UnavailableError],
  [500, { message: 'etcdserver: request is too large' }, TooLargeError],
  [500, { message: 'rpc error: trying to send message larger than max (2097160 vs. 2097152)' }, TooLargeError],
  [500, { reason: 'InternalError' }, UnavailableError],
  [503, '<html>no backend</html>', UnavailableError],
  [302, '', UnavailableError],
] as const;

for (const [status, body, type] of rows) {
  test(`${status} ${typeof body === 'string' ? body : JSON.stringify(body)} is a ${type.name}`, () => {
    const error = statusError('PUT /a/b', status, body, true);
    assert.equal(error.constructor, type);
    assert.equal(error.name, type.name);
    assert.equal(error.status, status);
    assert.equal(error.reason, typeof body === 'object' && 'reason' in body ? body.reason : '');
  });
}

test('the message gives method, path, status, reason and what the server said', () => {
  const body = { reason: 'Conflict', message: 'the object has been modified' };
  assert.equal(
    statusError('PUT /a/b', 409, body, true).message,
    'PUT /a/b: 409 Conflict: the object has been modified',
  );
});

test('a long page that is not of the API server is cut', () => {
  assert.equal(statusError('GET /a', 502, 'x'.repeat(10_000), false).message.length, 'GET /a: 502: '.length + 200);
});

test('the outcome of a write is unknown after a 5xx, and none after a 429; a read has none', () => {
  const outcome = (status: number, write: boolean): unknown => {
    const error = statusError('X /', status, {}, write);
    return error instanceof UnavailableError && error.outcome;
  };
  assert.equal(outcome(500, true), 'unknown');
  assert.equal(outcome(504, true), 'unknown');
  assert.equal(outcome(429, true), 'none');
  assert.equal(outcome(500, false), 'none');
});
