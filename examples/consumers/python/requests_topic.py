"""Reads gateway.requests.v1 as docs/topics.md specifies: by partition and offset, at least once."""

import json
import sys

from kafka import KafkaConsumer, TopicPartition

TOPIC = "gateway.requests.v1"
BATCH = 2_000


class RecordsLost(Exception):
    """The topic has deleted the next record: the reader was stopped for longer than `log.retention_hours`."""


def settled(value):
    """The outcome of a record, or None: other event types are skipped."""
    envelope = json.loads(value)
    return envelope["data"] if envelope["type"] == "request.settled" else None


def batches(brokers, positions, follow, topic=TOPIC):
    """
    Yields (partition, outcomes, next offset). The caller stores the outcomes and the next offset in one transaction;
    `positions` are the stored offsets: partition -> next offset. Without `follow` the iteration ends where the topic
    ended at the start.
    """
    consumer = KafkaConsumer(bootstrap_servers=brokers, enable_auto_commit=False, auto_offset_reset="none")
    try:
        partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        if not partitions:
            sys.exit(f"there is no topic {topic} on {brokers}")
        consumer.assign(partitions)
        first, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        following = {}
        for each in partitions:
            following[each] = positions.get(each.partition, first[each])
            if following[each] < first[each]:
                begins, wanted = first[each], following[each]
                raise RecordsLost(f"partition {each.partition} begins at {begins}, {wanted} comes next here")
            consumer.seek(each, following[each])
        while follow or any(following[each] < ends[each] for each in partitions):
            for each, records in consumer.poll(timeout_ms=1_000, max_records=BATCH).items():
                fresh = [record for record in records if record.offset >= following[each]]
                if not fresh:
                    continue
                following[each] = fresh[-1].offset + 1
                outcomes = [settled(record.value) for record in fresh]
                yield each.partition, [outcome for outcome in outcomes if outcome is not None], following[each]
    finally:
        consumer.close()
