import { launch } from './e2e/browser';
import { Gateway } from './e2e/gateway';
import { MockGateway } from './e2e/mock';
import { bigLog, runId } from './e2e/logs';
import { until } from './e2e/page';
export async function main(): Promise<void> {
  const gateway = new Gateway();
  const mock = new MockGateway();
  const [browser, url] = await Promise.all([launch(), mock.listen(), gateway.start()]);
  const id = await gateway.run('How fast is it', 'scripted:fanout=5,depth=2');
  await until(
    () => gateway.graph(id),
    (g) => g.status === 'completed',
    'ends',
  );
  for (let i = 0; i < 5; i++) {
    const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
    await page.goto(gateway.url);
    await page.locator(`[data-run-id="${id}"]`).waitFor();
    const ms = await page.evaluate(async (id) => {
      const begin = performance.now();
      history.pushState(null, '', `/runs/${id}?view=graph`);
      dispatchEvent(new PopStateEvent('popstate'));
      while (document.querySelector('[data-card]') === null) await new Promise((r) => setTimeout(r, 4));
      return performance.now() - begin;
    }, id);
    console.log('first card after', Math.round(ms), 'ms');
    await page.context().close();
  }
  mock.add(bigLog(runId(2), 10000, 7));
  const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
  await page.goto(`${url}/runs/${runId(2)}?view=graph`);
  await page.waitForTimeout(4000);
  for (const zoomed of [false, true]) {
    if (zoomed) for (let i = 0; i < 12; i++) await page.keyboard.press('+');
    await page.waitForTimeout(500);
    const box = (await page.getByTestId('graph').boundingBox())!;
    await page.mouse.move(box.x + 500, box.y + 400);
    await page.mouse.down();
    const frames = page.evaluate(
      () =>
        new Promise<number[]>((resolve) => {
          const all: number[] = [];
          let last = performance.now();
          const tick = (now: number) => {
            all.push(now - last);
            last = now;
            if (all.length < 120) requestAnimationFrame(tick);
            else resolve(all);
          };
          requestAnimationFrame(tick);
        }),
    );
    for (let i = 0; i < 110; i++) {
      await page.mouse.move(box.x + 500 + 3 * i, box.y + 400 - 2 * i);
      await new Promise((r) => setTimeout(r, 12));
    }
    await page.mouse.up();
    const all = (await frames).slice(5).sort((a, b) => a - b);
    console.log(
      zoomed ? 'near' : 'whole',
      'frames p50',
      all[Math.floor(all.length / 2)]!.toFixed(1),
      'p95',
      all[Math.floor(all.length * 0.95)]!.toFixed(1),
    );
  }
  await browser.close();
  await mock.close();
  await gateway.stop();
}
