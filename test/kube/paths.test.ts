import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { NotFoundError } from '../../src/kube/errors.ts';
import { collectionPath, objectPath, withQuery } from '../../src/kube/paths.ts';

const configMap = { group: '', version: 'v1', kind: 'ConfigMap', plural: 'configmaps' };
const workflow = { group: 'convoke.dev', version: 'v1alpha1', kind: 'Workflow', plural: 'workflows' };

test('core and named groups, one namespace and all', () => {
  assert.equal(collectionPath(configMap, 'a'), '/api/v1/namespaces/a/configmaps');
  assert.equal(collectionPath(configMap, undefined), '/api/v1/configmaps');
  assert.equal(collectionPath(workflow, 'a'), '/apis/convoke.dev/v1alpha1/namespaces/a/workflows');
  assert.equal(objectPath(workflow, undefined, 'w'), '/apis/convoke.dev/v1alpha1/workflows/w');
});

test('no name from outside reaches another path', () => {
  for (const name of ['', '.', '..', 'a/b', '../../secrets/s', '%2e%2e']) {
    assert.throws(() => objectPath(configMap, 'a', name), NotFoundError, JSON.stringify(name));
  }
  assert.throws(() => collectionPath(configMap, '../x'), NotFoundError);
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (name) => {
      let path: string;
      try {
        path = objectPath(configMap, 'a', name);
      } catch (error) {
        // A lone surrogate cannot be encoded, nor be part of a name.
        assert.ok(error instanceof NotFoundError);
        return;
      }
      const prefix = '/api/v1/namespaces/a/configmaps/';
      assert.equal(new URL(path, 'http://host').pathname, path);
      assert.match(path.slice(prefix.length), /^[^/?#\s]+$/);
      assert.ok(path.startsWith(prefix));
    }),
  );
});

test('a query holds what is defined, encoded', () => {
  assert.equal(withQuery('/p', { a: undefined }), '/p');
  assert.equal(
    withQuery('/p', { limit: 5, labelSelector: 'a in (b,c)', watch: true, continue: undefined }),
    '/p?limit=5&labelSelector=a+in+%28b%2Cc%29&watch=true',
  );
});
