import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { testCluster } from '../support/cluster.ts';
import { narrowKubeconfig } from '../support/operator.ts';
import { TASKS } from './expected.ts';
import { type Fixture, startFixture } from './fixture.ts';
import { judge } from './report.ts';
import { runSuite } from './suite.ts';

/** The part of `npm run conformance` that must pass in full; the operator has the rights of deploy/base. */
let fixture: Fixture;

before(async () => {
  const cluster = await testCluster();
  const [operatorKubeconfig, namespace] = await Promise.all([narrowKubeconfig(cluster), cluster.namespace()]);
  fixture = await startFixture({ kubeconfig: cluster.kubeconfigPath, operatorKubeconfig, namespace });
});
after(() => fixture?.stop());

for (const [scenario, expectation] of Object.entries(TASKS)) {
  test(`the official suite: ${scenario}`, async ({ signal }) => {
    const runs = await runSuite(fixture.url, [scenario], signal);
    assert.deepEqual(judge(runs, { [scenario]: expectation }), [
      { scenario, outcome: 'pass', passed: expectation.passed, total: expectation.passed, surprises: [] },
    ]);
  });
}
