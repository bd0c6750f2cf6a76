// Asks a question, follows the run, and prints the answer with its citations: node ask.ts QUESTION [PROJECT]
// Node 22.18 or later runs it as it is; so does `npx tsx`. It needs no package.
export {};

const server = process.env["TREE_AGENT_SERVER"] ?? "http://127.0.0.1:7400";
const headers: Record<string, string> = { "content-type": "application/json" };
if (process.env["TREE_AGENT_TOKEN"]) headers["authorization"] = `Bearer ${process.env["TREE_AGENT_TOKEN"]}`;

async function call(path: string, body?: unknown): Promise<any> {
  const init = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  const response = await fetch(`${server}/v1/${path}`, init);
  const answer: any = await response.json();
  if (!response.ok) throw new Error(`${answer.code}: ${answer.message}`);
  return answer;
}

/** The events of a run until it has ended. Where the connection breaks, it goes on. */
async function* events(run: string): AsyncGenerator<any> {
  for (let last = "0"; ; await new Promise((resolve) => setTimeout(resolve, 500))) {
    try {
      const accept = { ...headers, accept: "text/event-stream", "last-event-id": last };
      const response = await fetch(`${server}/v1/runs/${run}/events`, { headers: accept });
      if (!response.ok) throw new Error(`status ${response.status}: ${await response.text()}`);
      let text = "";
      for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
        const whole = (text + part).split("\n\n");
        text = whole.pop()!;
        for (const event of whole) {
          const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(event)?.[1];
          if (field("event") === "end") return;
          last = field("id") ?? last;
          if (!field("event")) yield JSON.parse(field("data")!);
        }
      }
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  }
}

const [objective, project] = process.argv.slice(2);
const context = project ? { context: { projectIds: [project] } } : {};
const { run } = await call("runs", { objective, ...context });
for await (const event of events(run.runId)) console.error(event.seq, event.type);
console.log((await call(`runs/${run.runId}/result`)).text);
const { claims = [] } = await call(`runs/${run.runId}/citations?nodeId=${run.rootNodeId}`);
for (const { citation } of claims) console.log(`- ${citation.sourcePath}: ${citation.quote}`);
