"""How long an exporter takes to answer a scrape, and how much it says."""

import http.client
import time

# What Prometheus 3 asks for.
HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
    "Accept-Encoding": "gzip",
}


def measure(address, scrapes, small="/healthz", headers=None):
    """Seconds of each scrape over one kept connection, and the size of the answer as sent and as text.

    `floor` has the seconds of as many answers of a small page: what this client and the connection take by themselves.
    """
    connection = http.client.HTTPConnection(address, timeout=10)
    floor = [get(connection, small)[0] for _ in range(scrapes)]
    times = []
    for _ in range(scrapes):
        seconds, encoding, body = get(connection, "/metrics", headers)
        times.append(seconds)
    connection.request("GET", "/metrics", headers={"Accept": HEADERS["Accept"]})
    text = connection.getresponse().read()
    connection.close()
    return {"seconds": times, "floor": floor, "bytes": len(body), "encoding": encoding, "text_bytes": len(text),
            "series": sum(1 for line in text.splitlines() if line and not line.startswith(b"#"))}


def get(connection, path, headers=None):
    """Asks for a page: seconds until its last byte, how it is encoded, and the page."""
    begin = time.perf_counter()
    connection.request("GET", path, headers=HEADERS if headers is None else headers)
    answer = connection.getresponse()
    body = answer.read()
    seconds = time.perf_counter() - begin
    if answer.status != 200:
        raise RuntimeError(f"{path} answers {answer.status}")
    return seconds, answer.getheader("Content-Encoding", "identity"), body
