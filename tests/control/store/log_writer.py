"""A process that appends to the log from several threads and says which numbers were acknowledged.

``python log_writer.py URL WHO THREADS COUNT``: a line on standard output for each entry that is on disk.
"""

from __future__ import annotations

import sys
import threading
from functools import partial

from hostler.control.store import DatabaseLimits, open_database
from hostler.control.store.history import log
from hostler.control.store.history.log import NewEntry

# A busy machine may let it stand still in a transaction.
PATIENT = DatabaseLimits(busy_s=300.0, connect_s=60.0, statement_s=300.0, lock_s=300.0, idle_in_transaction_s=300.0)


def main(url: str, who: str, threads: int, count: int) -> None:
    """Append and print; each thread waits for its entry before the next, as a client would."""
    database = open_database(url, limits=PATIENT)
    lock = threading.Lock()
    print("ready", flush=True)

    def run(number: int) -> None:
        for turn in range(count):
            body = f"{who}-{number}-{turn}"
            entry = NewEntry(at_ns=turn, kind="fact", body=body.encode())
            (seq,) = database.submit(partial(log.append, entries=[entry])).result()
            with lock:
                print(seq, body, flush=True)

    running = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    database.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
