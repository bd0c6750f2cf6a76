"""Asks a question, waits, and prints the answer with its citations: ask.py QUESTION [PROJECT]"""

import sys

from tree_agent_client import Client

run = Client().run(sys.argv[1], project=sys.argv[2:]).wait()
print(run.result().text)
for citation in run.citations():
    print(f"- {citation.source.path} {citation.source.place}: {citation.quote}")
