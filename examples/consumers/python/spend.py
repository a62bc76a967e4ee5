"""
The spend of each tenant, from the requests topic.

    python3 spend.py --brokers localhost:9092 --state spend.db [--follow]

Outcomes and offsets are one transaction of one SQLite file: after a crash at any moment it continues from there, and
counts nothing twice. Prints one line of JSON: the spend by tenant, in whole nano-USD (1 USD is 1,000,000,000).
"""

import argparse
import json
import sqlite3

from requests_topic import batches

TABLES = """
create table if not exists position (partition integer primary key, next integer not null);
create table if not exists outcome (
  id text primary key, tenant_id text, at_ms integer not null, cost_nano_usd integer,
  prompt_tokens integer not null, completion_tokens integer not null) without rowid;
"""

SPEND = """
select tenant_id, count(*) as requests,
  sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens,
  coalesce(sum(cost_nano_usd), 0) as cost_nano_usd, count(*) - count(cost_nano_usd) as unpriced
from outcome group by tenant_id order by tenant_id
"""


def keep(state, partition, outcomes, following):
    """The first settlement of a request is its outcome: repeats and further settlements change nothing."""
    with state:
        state.executemany(
            "insert or ignore into outcome values (?, ?, ?, ?, ?, ?)",
            [
                (
                    outcome["id"],
                    outcome.get("tenant_id"),
                    outcome["at_ms"],
                    outcome.get("cost_nano_usd"),
                    outcome.get("prompt_tokens", 0),
                    outcome.get("completion_tokens", 0),
                )
                for outcome in outcomes
            ],
        )
        state.execute("insert or replace into position values (?, ?)", (partition, following))


def spend(state):
    state.row_factory = sqlite3.Row
    return [dict(row) for row in state.execute(SPEND)]


def main():
    options = argparse.ArgumentParser(description="The spend of each tenant, from the requests topic.")
    options.add_argument("--brokers", required=True, help="host:port, several with commas between")
    options.add_argument("--state", default="spend.db", help="SQLite file that outcomes and offsets are kept in")
    options.add_argument("--follow", action="store_true", help="wait for more, and print after each batch")
    given = options.parse_args()
    state = sqlite3.connect(given.state)
    state.executescript(TABLES)
    positions = dict(state.execute("select partition, next from position"))
    read = 0
    for partition, outcomes, following in batches(given.brokers.split(","), positions, given.follow):
        keep(state, partition, outcomes, following)
        read += len(outcomes)
        if given.follow:
            print(json.dumps({"read": read, "spend": spend(state)}), flush=True)
    if not given.follow:
        print(json.dumps({"read": read, "spend": spend(state)}))


if __name__ == "__main__":
    main()
