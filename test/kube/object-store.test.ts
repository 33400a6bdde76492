import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ObjectStore } from '../../src/kube/object-store.ts';
import { isLater } from '../../src/kube/resource-version.ts';
import type { ConfigMap } from '../support/model-server.ts';

function configMap(name: string, resourceVersion: string, uid = `uid-${name}`, owners: string[] = []): ConfigMap {
  const metadata = { namespace: 'default', name, uid, resourceVersion };
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: Object.fromEntries(owners.map((o) => [o, ''])) };
}

function storeOf(...objects: ConfigMap[]): ObjectStore<ConfigMap> {
  const store = new ObjectStore<ConfigMap>({ owner: (object) => Object.keys(object.data ?? {}) });
  store.replace(objects, '100');
  return store;
}

describe('isLater', () => {
  it('orders versions as integers of any length', () => {
    assert.ok(isLater('10', '9'));
    assert.ok(!isLater('9', '10'));
    assert.ok(!isLater('10', '10'));
    assert.ok(isLater('9007199254740993', '9007199254740992'), 'beyond what a number holds');
    assert.ok(isLater('1', ''));
  });
});

describe('object store', () => {
  it('finds objects by name, namespace and every value of a declared index', () => {
    const other = { ...configMap('x', '4'), metadata: { ...configMap('x', '4').metadata, namespace: 'other' } };
    const store = storeOf(configMap('a', '1', 'ua', ['r1', 'r2']), configMap('b', '2', 'ub', ['r1']), other);
    assert.equal(store.size, 3);
    assert.equal(store.get('default', 'a')?.metadata.uid, 'ua');
    assert.equal(store.get('other', 'a'), undefined);
    assert.equal(store.list().length, 3);
    assert.deepEqual(store.list('other'), [other]);
    assert.deepEqual(store.list('none'), []);
    assert.deepEqual(
      store.by('owner', 'r1').map(({ metadata }) => metadata.name),
      ['a', 'b'],
    );
    assert.deepEqual(
      store.by('owner', 'r2').map(({ metadata }) => metadata.name),
      ['a'],
    );
    assert.deepEqual(store.by('owner', 'r3'), []);
    assert.throws(() => store.by('colour', 'red'), /no index "colour" was declared \(there are: owner\)/);
  });

  it('moves an object in its indexes when a change takes it elsewhere', () => {
    const store = storeOf(configMap('a', '1', 'ua', ['r1']));
    store.apply({ type: 'MODIFIED', object: configMap('a', '101', 'ua', ['r2']) });
    assert.deepEqual(store.by('owner', 'r1'), []);
    assert.equal(store.by('owner', 'r2').length, 1);
    store.apply({ type: 'DELETED', object: configMap('a', '102', 'ua', ['r2']) });
    assert.deepEqual(store.by('owner', 'r2'), []);
    assert.equal(store.size, 0);
  });

  it('field case 57 (E): an equal resourceVersion is no change, from a watch, a list or a write of our own', () => {
    const store = storeOf(configMap('a', '50'));
    assert.deepEqual(store.apply({ type: 'MODIFIED', object: configMap('a', '50') }), []);
    assert.deepEqual(store.replace([configMap('a', '50')], '100'), []);
    assert.deepEqual(store.observe(configMap('a', '50')), []);
    assert.deepEqual(store.apply({ type: 'MODIFIED', object: configMap('a', '101') }), [
      { key: 'default/a', kind: 'changed' },
    ]);
    assert.deepEqual(store.observe(configMap('a', '101')), []);
  });

  it('field case 57 (E): a repeated delete is no change', () => {
    const store = storeOf(configMap('a', '50'));
    const event = { type: 'DELETED', object: configMap('a', '101') } as const;
    assert.deepEqual(store.apply(event), [{ key: 'default/a', kind: 'deleted' }]);
    assert.deepEqual(store.apply(event), []);
  });

  it('sees both deletion and creation when a list has another object of the same name', () => {
    const store = storeOf(configMap('a', '50', 'first'));
    assert.deepEqual(store.replace([configMap('a', '120', 'second')], '130'), [
      { key: 'default/a', kind: 'deleted' },
      { key: 'default/a', kind: 'added' },
    ]);
  });

  it('field case 59 (E): a list takes out what was deleted while nobody watched', () => {
    const store = storeOf(configMap('a', '50'), configMap('b', '60'));
    assert.deepEqual(store.replace([configMap('b', '60')], '130'), [{ key: 'default/a', kind: 'deleted' }]);
  });

  it('serves a write of our own before the watch has it, and does not go back from it', () => {
    const store = storeOf(configMap('a', '50'));
    assert.deepEqual(store.observe(configMap('a', '105')), [{ key: 'default/a', kind: 'changed' }]);
    assert.deepEqual(store.apply({ type: 'MODIFIED', object: configMap('a', '103') }), []);
    assert.deepEqual(store.apply({ type: 'MODIFIED', object: configMap('a', '105') }), []);
    assert.equal(store.get('default', 'a')?.metadata.resourceVersion, '105');
  });

  it('keeps a write of our own through a list that is older than it', () => {
    const store = storeOf();
    store.observe(configMap('new', '140'));
    store.observe(configMap('old', '110'));
    assert.deepEqual(store.replace([], '130'), [{ key: 'default/old', kind: 'deleted' }]);
    assert.ok(store.get('default', 'new'));
  });

  it('does not bring back what was deleted since the write whose answer comes late', () => {
    const store = storeOf(configMap('a', '50'));
    store.apply({ type: 'DELETED', object: configMap('a', '110') });
    assert.deepEqual(store.observe(configMap('a', '105')), []);
    store.apply({ type: 'BOOKMARK', resourceVersion: '200' });
    assert.deepEqual(store.observe(configMap('b', '150')), [], 'up to 200 the watch has told everything');
  });

  it('does not take a recreated object out by the deletion of its predecessor', () => {
    const store = storeOf(configMap('a', '50', 'first'));
    store.observe(configMap('a', '112', 'second'));
    assert.deepEqual(store.apply({ type: 'DELETED', object: configMap('a', '110', 'first') }), []);
    assert.equal(store.get('default', 'a')?.metadata.uid, 'second');
  });

  it('believes a list that is older than what it saw: the history of the server was set back', () => {
    const store = storeOf(configMap('a', '90'), configMap('b', '95'));
    store.observe(configMap('c', '105'));
    assert.deepEqual(store.replace([configMap('a', '40')], '60'), [
      { key: 'default/b', kind: 'deleted' },
      { key: 'default/c', kind: 'deleted' },
      { key: 'default/a', kind: 'changed' },
    ]);
    assert.deepEqual(store.apply({ type: 'ADDED', object: configMap('d', '61') }), [
      { key: 'default/d', kind: 'added' },
    ]);
  });
});
