"""
Loads the requests topic into a DuckDB file, for any query.

    python3 load_duckdb.py --brokers localhost:9092 --database requests.duckdb

It can run any number of times: offsets are stored in the same file, in the same transaction. Each outcome is stored
whole in `data` (JSON), beside the columns that most queries need. Prints the spend by tenant and model as JSON.
"""

import argparse
import json

import duckdb

from requests_topic import batches

TABLES = """
create table if not exists position (part integer primary key, next bigint not null);
create table if not exists requests (
  id text primary key, arrived_at timestamptz not null,
  tenant_id text, provider text, model text, outcome text not null,
  prompt_tokens bigint, completion_tokens bigint, cost_nano_usd hugeint,
  latency_ms bigint not null, data json not null);
"""

FROM_RECORDS = """
insert or ignore into requests
select data->>'id', to_timestamp((data->>'at_ms')::bigint / 1000.0),
  data->>'tenant_id', data->>'provider', data->>'routed_model', data->>'outcome',
  (data->>'prompt_tokens')::bigint, (data->>'completion_tokens')::bigint, (data->>'cost_nano_usd')::hugeint,
  (data->>'latency_ms')::bigint, data
from (select unnest(?::json[]) as data)
"""

SPEND = """
select tenant_id, model, count(*)::bigint as requests, coalesce(sum(cost_nano_usd), 0)::hugeint as cost_nano_usd
from requests group by all order by all
"""


def main():
    options = argparse.ArgumentParser(description="Loads the requests topic into a DuckDB file.")
    options.add_argument("--brokers", required=True, help="host:port, several with commas between")
    options.add_argument("--database", default="requests.duckdb")
    given = options.parse_args()
    database = duckdb.connect(given.database)
    database.execute(TABLES)
    positions = dict(database.execute("select part, next from position").fetchall())
    for partition, outcomes, following in batches(given.brokers.split(","), positions, follow=False):
        # The first settlement of a request is its outcome: of one batch too.
        first = {}
        for outcome in outcomes:
            first.setdefault(outcome["id"], json.dumps(outcome))
        database.begin()
        if first:
            database.execute(FROM_RECORDS, [list(first.values())])
        database.execute("insert or replace into position values (?, ?)", [partition, following])
        database.commit()
    rows = database.execute(SPEND).fetchall()
    names = ("tenant_id", "model", "requests", "cost_nano_usd")
    print(json.dumps([dict(zip(names, row)) for row in rows]))


if __name__ == "__main__":
    main()
