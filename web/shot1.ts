import { launch } from './e2e/browser';
import { MockGateway } from './e2e/mock';
import { Log, bigLog, runId } from './e2e/logs';
import { NodeStatus } from './src/gen/treeagent/v1/common_pb';
export async function main(): Promise<void> {
  const mock = new MockGateway();
  const [browser, url] = await Promise.all([launch(), mock.listen()]);
  const log = new Log(runId(1), 'مرحبا بالعالم: ما هي الالتزامات؟');
  const root = log.node(-1, 'مرحبا بالعالم: ما هي الالتزامات التي يقدمها السجل، وكيف تُسمى الأحداث؟');
  log.status(root, NodeStatus.WAITING);
  const titles = [
    '👩‍👩‍👧‍👦 Family 👨🏽‍🚀 astronaut 🏳️‍🌈 flag 🇩🇪 and a long tail of emoji 🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉🎉',
    'x'.repeat(1000),
    'word '.repeat(200),
    'שלום עולם: מה קורה כאשר מסד הנתונים נופל',
    '日本語のとても長いタイトルは二行に分けて表示されるべきです。そして途中で切られます',
    'ﷺ '.repeat(40),
    'plain',
  ];
  for (const t of titles) {
    const n = log.node(root, t);
    log.status(n, NodeStatus.EXECUTING);
  }
  mock.add(log);
  mock.add(bigLog(runId(2), 10000, 7));
  const shoot = async (
    path: string,
    name: string,
    viewport: { width: number; height: number },
    act?: (p: any) => Promise<void>,
  ) => {
    const page = await (await browser.newContext({ viewport })).newPage();
    page.on('pageerror', (e) => console.log('ERR', e.message));
    const t = Date.now();
    await page.goto(url + path);
    await page.locator('canvas').first().waitFor();
    console.log(name, Date.now() - t);
    await page.waitForTimeout(2500);
    await act?.(page);
    await page.screenshot({ path: `/tmp/${name}.png` });
    await page.close();
  };
  await shoot(`/runs/${runId(1)}?view=graph`, 'rtl', { width: 1440, height: 900 });
  await shoot(`/runs/${runId(1)}?view=graph`, 'rtl-small', { width: 700, height: 360 });
  await shoot(`/runs/${runId(2)}?view=graph`, 'phone', { width: 390, height: 844 });
  await shoot(`/runs/${runId(2)}?view=graph`, 'big', { width: 1440, height: 900 });
  await browser.close();
  await mock.close();
}
