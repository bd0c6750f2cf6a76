// Checks deploy/ as far as that is possible without Kubernetes: every file parses, every kustomization names files that
// exist and leaves none out, variables and programs exist in the code, and ports, names and secrets match.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { variablesOfPrograms } from './variables.mjs';

const problems = [];
const expect = (condition, file, message) => {
  if (!condition) problems.push(`${file}: ${message}`);
};

const files = readdirSync('deploy', { recursive: true })
  .filter((f) => /\.ya?ml$/.test(f))
  .map((f) => join('deploy', f));
const parsed = new Map();
for (const file of files) {
  const documents = parseAllDocuments(readFileSync(file, 'utf8'), { strict: true, uniqueKeys: true });
  for (const document of documents)
    for (const e of [...document.errors, ...document.warnings]) expect(false, file, e.message);
  parsed.set(file, documents.map((d) => d.toJS()).filter(Boolean));
}

// --- kustomizations -------------------------------------------------------------------------------------------------
const used = new Set();
const resources = (file) => {
  used.add(file);
  const [kustomization] = parsed.get(file);
  expect(kustomization?.kind === 'Kustomization', file, 'is not a Kustomization');
  return (kustomization?.resources ?? []).flatMap((name) => {
    const path = normalize(join(dirname(file), name));
    const inner = join(path, 'kustomization.yaml');
    if (existsSync(inner)) return resources(inner);
    if (!parsed.has(path)) {
      expect(false, file, `names ${name}, which does not exist`);
      return [];
    }
    used.add(path);
    return parsed.get(path).map((object) => ({ file: path, object }));
  });
};
const variables = variablesOfPrograms();
const defaultPorts = new Map(
  ['event-gateway', 'planner', 'executor', 'aggregator'].map((service) => {
    const source = ['config.rs', 'lib.rs', 'main.rs']
      .map((f) => `services/${service}/src/${f}`)
      .filter(existsSync)
      .map((f) => readFileSync(f, 'utf8'))
      .join('\n');
    const port = source.match(/const (?:DEFAULT_)?PORT: u16 = ([0-9_]+)/)?.[1];
    expect(port, `services/${service}`, 'no default port found');
    return [service, Number(port?.replace('_', ''))];
  }),
);
const programs = new Set(['tree-agent', ...[...defaultPorts.keys()].map((s) => `tree-agent-${s}`)]);

for (const root of files.filter((f) => f.endsWith('kustomization.yaml'))) {
  const all = resources(root);
  const [kustomization] = parsed.get(root);
  const named = (kind, name) => all.find(({ object }) => object.kind === kind && object.metadata.name === name)?.object;
  const seen = new Set();
  for (const { file, object } of all) {
    expect(object.apiVersion && object.kind && object.metadata?.name, file, 'an object lacks apiVersion, kind or name');
    const id = `${object.kind}/${object.metadata?.name}`;
    expect(!seen.has(id), file, `${id} occurs twice`);
    seen.add(id);
    expect(!object.metadata?.namespace, file, `${id} names a namespace: whoever deploys chooses it`);
    const pod = object.spec?.template?.spec;
    if (pod) checkPod(file, object, pod, named, kustomization);
    if (object.kind === 'Service') {
      const target = all.find(
        ({ object: o }) => o.spec?.template && matches(o.spec.template.metadata.labels, object.spec.selector),
      );
      expect(target, file, `${id} selects nothing`);
      const offered = target?.object.spec.template.spec.containers.flatMap((c) => c.ports ?? []) ?? [];
      for (const port of object.spec.ports) {
        const found = offered.find((o) => o.name === port.targetPort || o.containerPort === port.targetPort);
        expect(found, file, `${id}: port ${port.targetPort} is not offered`);
        expect(
          found?.containerPort === port.port,
          file,
          `${id}: port ${port.port} is ${found?.containerPort} in the container`,
        );
      }
    }
    if (object.kind === 'PodDisruptionBudget') {
      const selector = object.spec.selector.matchLabels;
      expect(
        all.some(({ object: o }) => matches(o.spec?.template?.metadata?.labels, selector)),
        file,
        `${id} selects nothing`,
      );
    }
    if (object.kind === 'ConfigMap') {
      for (const [name, value] of Object.entries(object.data)) {
        expect(variables.has(name), file, `no program reads ${name}`);
        expect(typeof value === 'string', file, `${name} is not a string; quote it`);
        for (const url of String(value).match(/http:\/\/[^,]+/g) ?? []) {
          const { hostname, port } = new URL(url);
          const service = named('Service', hostname);
          expect(
            service?.spec.ports.some((p) => p.port === Number(port)),
            file,
            `${name}: ${url} is no Service's port`,
          );
          expect(
            service?.spec.clusterIP === 'None',
            file,
            `${name}: ${hostname} is not headless, so calls would not be balanced`,
          );
        }
      }
    }
  }
  for (const { target, patch } of kustomization.patches ?? [])
    checkPatch(root, target, parseAllDocuments(patch)[0].toJS(), named);
  for (const { name } of kustomization.replicas ?? [])
    expect(named('Deployment', name), root, `sets replicas of ${name}, which does not exist`);
  for (const service of defaultPorts.keys()) {
    expect(
      named('Deployment', service) && named('Service', service) && named('PodDisruptionBudget', service),
      root,
      `${service} lacks a Deployment, a Service or a PodDisruptionBudget`,
    );
  }
}

function checkPod(file, object, pod, named, kustomization) {
  const id = `${object.kind}/${object.metadata.name}`;
  const selector = object.spec.selector?.matchLabels;
  if (selector)
    expect(matches(object.spec.template.metadata.labels, selector), file, `${id} does not select its own pods`);
  expect(pod.securityContext?.runAsNonRoot === true, file, `${id} may run as root`);
  for (const container of pod.containers) {
    const security = container.securityContext ?? {};
    expect(
      security.readOnlyRootFilesystem && security.allowPrivilegeEscalation === false,
      file,
      `${id}: securityContext is not tight`,
    );
    expect(container.resources?.requests && container.resources?.limits?.memory, file, `${id} has no resources`);
    for (const mount of container.volumeMounts ?? []) {
      const volumes = [...(pod.volumes ?? []), ...(object.spec.volumeClaimTemplates ?? []).map((v) => v.metadata)];
      expect(
        volumes.some((v) => v.name === mount.name),
        file,
        `${id} mounts ${mount.name}, which does not exist`,
      );
    }
    for (const source of container.envFrom ?? []) {
      expect(
        named('ConfigMap', source.configMapRef.name),
        file,
        `${id} uses the ConfigMap ${source.configMapRef.name}, which does not exist`,
      );
    }
    const generated = (kustomization.secretGenerator ?? []).flatMap((s) =>
      s.literals.map((l) => `${s.name}/${l.split('=')[0]}`),
    );
    for (const { name, valueFrom } of container.env ?? []) {
      if (name.startsWith('TREE_AGENT_')) expect(variables.has(name), file, `no program reads ${name}`);
      const ref = valueFrom?.secretKeyRef;
      if (ref && generated.length)
        expect(generated.includes(`${ref.name}/${ref.key}`), file, `${id}: the secret ${ref.name} has no ${ref.key}`);
    }
    if (container.image !== 'tree-agent') continue;
    expect(programs.has(container.command[0]), file, `${id} runs ${container.command[0]}, which is not built`);
    if (object.kind !== 'Deployment') continue;
    const port = defaultPorts.get(object.metadata.name);
    const listen = container.env.find((e) => e.name === 'TREE_AGENT_LISTEN')?.value;
    expect(listen === `0.0.0.0:${port}`, file, `${id} listens on ${listen}, not on port ${port}`);
    expect(
      container.ports[0].containerPort === port &&
        container.readinessProbe.grpc.port === port &&
        container.livenessProbe.tcpSocket.port === port,
      file,
      `${id}: its ports and probes are not all ${port}`,
    );
    const scraped =
      container.env.find((e) => e.name === 'TREE_AGENT_METRICS_LISTEN')?.value.split(':')[1] ?? String(port);
    const annotations = object.spec.template.metadata.annotations ?? {};
    expect(
      annotations['prometheus.io/scrape'] === 'true' &&
        annotations['prometheus.io/path'] === '/metrics' &&
        annotations['prometheus.io/port'] === scraped,
      file,
      `${id} is not scraped at port ${scraped}`,
    );
    expect(
      container.ports.some((p) => p.containerPort === Number(scraped)),
      file,
      `${id} does not offer port ${scraped}`,
    );
    const config = named('ConfigMap', 'tree-agent')?.data ?? {};
    expect(
      pod.terminationGracePeriodSeconds > Number(config.TREE_AGENT_DRAIN_SECONDS),
      file,
      `${id} is killed before it has drained`,
    );
    expect(
      object.spec.replicas >= 2 && object.spec.strategy.rollingUpdate.maxUnavailable === 0,
      file,
      `${id} is not rolled without a gap`,
    );
  }
}

// What an overlay changes must exist, a program must read what it sets, and its mounts must name volumes.
function checkPatch(file, target, patch, named) {
  const id = `the patch of ${target.kind}/${target.name}`;
  const object = named(target.kind, target.name);
  expect(object, file, `${id}: there is no such object`);
  expect(patch.kind === target.kind && patch.metadata?.name === target.name, file, `${id} is for another object`);
  for (const [name, value] of Object.entries((target.kind === 'ConfigMap' && patch.data) || {})) {
    expect(variables.has(name), file, `${id}: no program reads ${name}`);
    expect(typeof value === 'string', file, `${id}: ${name} is not a string; quote it`);
  }
  const pod = patch.spec?.template?.spec;
  for (const container of pod?.containers ?? []) {
    expect(
      object?.spec.template.spec.containers.some((c) => c.name === container.name),
      file,
      `${id}: there is no container ${container.name}`,
    );
    for (const mount of container.volumeMounts ?? []) {
      expect(
        pod.volumes?.some((v) => v.name === mount.name),
        file,
        `${id} mounts ${mount.name}, which does not exist`,
      );
    }
  }
}

function matches(labels, selector) {
  return Boolean(labels && selector) && Object.entries(selector).every(([key, value]) => labels[key] === value);
}

for (const file of files) expect(used.has(file), file, 'is in no kustomization');

// --- the image and the table of variables
// -----------------------------------------------------------------------------
const image = readFileSync('deploy/Containerfile', 'utf8');
for (const program of programs)
  expect(new RegExp(`\\s${program}[\\s;]`).test(image), 'deploy/Containerfile', `leaves out ${program}`);
const rust = readFileSync('Cargo.toml', 'utf8').match(/rust-version = "(.*)"/)[1];
expect(image.includes(`rust:${rust}-`), 'deploy/Containerfile', `does not build with Rust ${rust}`);
const readme = readFileSync('deploy/README.md', 'utf8');
for (const name of variables) expect(readme.includes(`\`${name}\``), 'deploy/README.md', `does not explain ${name}`);
for (const m of readme.matchAll(/^\| `([A-Z_]+)`/gm))
  expect(variables.has(m[1]), 'deploy/README.md', `explains ${m[1]}, which nothing reads`);

for (const line of problems) console.error(line);
console.log(`${files.length} files checked`);
process.exitCode = problems.length ? 1 : 0;
