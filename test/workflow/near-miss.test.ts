import assert from 'node:assert/strict';
import { it } from 'node:test';
import { nearMiss, suggestion } from '../../src/workflow/near-miss.ts';

const CASES: [string, string[], string | undefined][] = [
  ['biuld', ['deploy', 'build'], 'build'],
  ['itms', ['items'], 'items'],
  ['build', ['builds', 'build_all'], 'builds'],
  ['tset', ['test', 'deploy'], 'test'],
  ['replica', ['replicas'], 'replicas'],
  ['x', ['y'], undefined],
  ['ab', ['cd'], undefined],
  ['verify', ['build', 'deploy'], undefined],
];

for (const [name, candidates, expected] of CASES) {
  it(`${name} among ${candidates.join(', ')} was meant to be ${expected}`, () => {
    assert.equal(nearMiss(name, candidates), expected);
  });
}

it('without a near one, what there is; with none at all, nothing', () => {
  assert.equal(suggestion('verify', ['build', 'deploy']), ' (known: build, deploy)');
  assert.equal(suggestion('verify', []), '');
});
