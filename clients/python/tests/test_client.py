"""The client over recorded answers, and over a real gateway that is killed (`TREE_AGENT_BIN`)."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from collections.abc import Callable

import httpx
from tree_agent_client import Client, Conflict, Disconnected, InvalidArgument, LimitReached, NotFound

RUN = "0190b6f1-8d3e-7cc4-a1c7-3f7f6c1d2e4b"


def over(handler: Callable[[httpx.Request], httpx.Response], patience: float = 5.0) -> Client:
    return Client("http://test", patience=patience, transport=httpx.MockTransport(handler))


def error(status: int, code: str, field: str | None = None, reason: str = "R") -> httpx.Response:
    details = [{"type": "google.rpc.ErrorInfo", "debug": {"reason": reason}}]
    if field:
        violations = [{"field": field, "description": "is wrong"}]
        details.append({"type": "google.rpc.BadRequest", "debug": {"fieldViolations": violations}})
    return httpx.Response(status, json={"code": code, "message": f"{code} it is", "details": details})


def event(seq: int) -> str:
    data = {"runId": RUN, "seq": seq, "nodeId": RUN, "timestamp": "t", "type": "tree.x", "payload": {"nodeId": RUN}}
    return f"id: {seq}\ndata: {json.dumps(data)}\n\n"


class Recorded(unittest.TestCase):
    def test_a_run_is_started_with_what_was_asked(self) -> None:
        seen: list[httpx.Request] = []

        def answer(request: httpx.Request) -> httpx.Response:
            seen.append(request)
            return httpx.Response(200, json={"run": {"runId": RUN}})

        client = Client("http://test/", token=lambda: "secret", transport=httpx.MockTransport(answer))
        run = client.run("why?", project="notes", strategy="search", max_cost_usd=0.5, max_minutes=2, readOnly=True)
        body = json.loads(seen[0].content)
        self.assertTrue(body.pop("requestId"))
        self.assertEqual(
            body,
            {
                "objective": "why?",
                "strategy": "STRATEGY_SEARCH",
                "model": "",
                "readOnly": True,
                "context": {"projectIds": ["notes"]},
                "budgets": {"maxCostMicros": "500000", "maxWallClockMs": "120000"},
            },
        )
        self.assertEqual((run.id, seen[0].headers["authorization"]), (RUN, "Bearer secret"))

    def test_errors_are_classes_with_the_field(self) -> None:
        for status, code, kind in [
            (400, "invalid_argument", InvalidArgument),
            (404, "not_found", NotFound),
            (409, "already_exists", Conflict),
            (429, "resource_exhausted", LimitReached),
        ]:
            client = over(lambda _, status=status, code=code: error(status, code, "objective"))
            with self.assertRaises(kind) as caught:
                client.run("")
            self.assertEqual((caught.exception.field, caught.exception.reason), ("objective", "R"))

    def test_what_is_away_for_a_while_is_tried_again_with_the_same_request_id(self) -> None:
        ids: list[str] = []

        def answer(request: httpx.Request) -> httpx.Response:
            ids.append(json.loads(request.content)["requestId"])
            if len(ids) == 1:
                raise httpx.ConnectError("refused")
            if len(ids) == 2:
                return httpx.Response(502, text="<html>bad gateway</html>")
            return httpx.Response(200, json={"run": {"runId": RUN}})

        over(answer).run("why?")
        self.assertEqual((len(ids), len(set(ids))), (3, 1))

    def test_without_a_network_it_says_so(self) -> None:
        def answer(_: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("no route")

        with self.assertRaisesRegex(Disconnected, "no route"):
            over(answer, patience=0.2).get(RUN)

    def test_a_stream_that_breaks_goes_on_behind_its_last_event(self) -> None:
        asked: list[str] = []
        parts = [
            event(1) + event(2) + "id: 2\nevent: caught_up\ndata: {}\n\n" + event(3)[:20],
            event(3) + 'id: 3\nevent: resume_hint\ndata: {"reason":"drain"}\n\n',
            event(4) + "event: end\ndata: {}\n\n",
        ]

        def answer(request: httpx.Request) -> httpx.Response:
            asked.append(request.headers["last-event-id"])
            return httpx.Response(200, text=parts[len(asked) - 1])

        with over(answer) as client:
            from tree_agent_client.run import Run

            seqs = [event.seq for event in Run(client._http, RUN).events()]
        self.assertEqual((seqs, asked), ([1, 2, 3, 4], ["0", "2", "3"]))

    def test_a_wait_asks_again_until_the_end(self) -> None:
        answers = [("RUNNING", "TIMEOUT"), ("PAUSED", "NEEDS_PERSON"), ("PAUSED", "TIMEOUT"), ("COMPLETED", "ENDED")]
        seen: list[str | None] = []

        def answer(request: httpx.Request) -> httpx.Response:
            if not request.url.path.endswith(":wait"):
                return httpx.Response(200, json={"run": {"runId": RUN}})
            status, reason = answers[len(seen)]
            seen.append(request.url.params.get("afterSeq"))
            run = {"runId": RUN, "status": f"RUN_STATUS_{status}", "headSeq": "7"}
            return httpx.Response(200, json={"run": run, "reason": f"WAIT_REASON_{reason}"})

        over(answer).get(RUN).wait(60)
        self.assertEqual(seen, [None, None, "7", None])


@unittest.skipUnless(os.environ.get("TREE_AGENT_BIN"), "TREE_AGENT_BIN names no program")
class Real(unittest.TestCase):
    """A server in a process of its own."""

    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()
        self.client = Client(f"http://127.0.0.1:{self.port}", patience=60)

    def start(self) -> None:
        command = [os.environ["TREE_AGENT_BIN"], "dev", "--listen", f"127.0.0.1:{self.port}"]
        command += ["--data-dir", f"{self.folder.name}/data", "--model", "offline", "--embeddings", "none"]
        self.server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def tearDown(self) -> None:
        self.client.close()
        self.server.kill()
        self.server.wait()
        self.folder.cleanup()

    def documents(self) -> pathlib.Path:
        folder = pathlib.Path(self.folder.name) / "notes"
        (folder / "sub").mkdir(parents=True)
        (folder / ".hidden.md").write_text("hidden")
        (folder / "crane.md").write_text("# Crane\n\nThe crane stops at force 8, because it would fall.\n")
        (folder / "sub" / "fees.md").write_text("# Fees\n\nA ship pays 45 crowns a night in the harbour.\n")
        return folder

    def test_a_folder_is_imported_and_asked(self) -> None:
        done = {one.path: one.outcome for one in self.client.import_folder(self.documents(), "notes")}
        self.assertEqual(done, {"crane.md": "created", "sub/fees.md": "created"})
        again = [one.outcome for one in self.client.import_folder(f"{self.folder.name}/notes", "notes")]
        self.assertEqual(again, ["unchanged", "unchanged"])
        run = self.client.run("At which force does the crane stop?", project="notes").wait(60)
        self.assertIn("force 8", run.result().text)
        citations = run.citations()
        self.assertEqual((citations[0].verdict, citations[0].source.path), ("verified", "crane.md"))
        self.assertEqual([one.id for one in self.client.runs(projectId="notes")], [run.id])
        self.assertEqual(self.client.search("crowns", project="notes")[0]["document"]["path"], "sub/fees.md")
        events = list(run.events())
        self.assertEqual([event.seq for event in events], list(range(1, len(events) + 1)))
        bill = run.fork_bill(4)
        self.assertGreater(bill.nodes, 0)
        with self.assertRaises(InvalidArgument) as caught:
            self.client.run("", project="notes")
        self.assertEqual(caught.exception.field, "objective")
        with self.assertRaises(NotFound):
            self.client.run("why?", project="nothing")
        run.delete()

    def test_a_stream_goes_on_over_a_killed_server(self) -> None:
        model = "scripted:latency_ms=300,depth=2"
        run = self.client.run("Compare the offers", model=model)
        seqs: list[int] = []
        killed = threading.Event()

        def follow() -> None:
            for event in run.events():
                seqs.append(event.seq)
                if len(seqs) == 10:
                    killed.set()

        follower = threading.Thread(target=follow)
        follower.start()
        self.assertTrue(killed.wait(60))
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()
        time.sleep(0.5)
        self.start()
        follower.join(120)
        self.assertFalse(follower.is_alive(), seqs)
        self.assertEqual(seqs, list(range(1, len(seqs) + 1)))
        self.assertEqual(run.state().head_seq, seqs[-1])


if __name__ == "__main__":
    unittest.main()
