"""What the API server's audit log says about who asked for what, and when."""

import collections
import datetime
import json


class Request:
    """One answered request."""

    __slots__ = ("user", "verb", "resource", "subresource", "name", "code", "received", "answered", "uri", "body")

    def __init__(self, line):
        target = line.get("objectRef") or {}
        self.user = line["user"]["username"]
        self.verb = line["verb"]
        self.resource = target.get("resource", "")
        self.subresource = target.get("subresource", "")
        self.name = target.get("name", "")
        self.code = (line.get("responseStatus") or {}).get("code", 0)
        self.received = _seconds(line["requestReceivedTimestamp"])
        self.answered = _seconds(line["stageTimestamp"])
        self.uri = line["requestURI"]
        self.body = line.get("requestObject")

    def kind(self):
        """Verb and resource, as one word for tables."""
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {resource or self.uri.partition('?')[0]}"

    def is_(self, verb, resource, subresource=""):
        """Whether this is such a request."""
        return (self.verb, self.resource, self.subresource) == (verb, resource, subresource)


def _seconds(stamp):
    return datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def read(path):
    """The requests so far, in the order of their arrival. A watch counts when it is opened."""
    requests = []
    with open(path, encoding="utf-8") as log:
        for text in log:
            if not text.endswith("\n"):
                break
            line = json.loads(text)
            # A watch is in the log when it opens and again when it ends.
            wanted = "ResponseStarted" if line["verb"] == "watch" else "ResponseComplete"
            if line["stage"] == wanted:
                requests.append(Request(line))
    requests.sort(key=lambda request: request.received)
    return requests


def between(requests, start, end, user=None):
    """Those that arrived in this time."""
    return [r for r in requests if start <= r.received <= end and user in (None, r.user)]


def is_lease(request):
    """Leadership's own requests, which come with or without a fault."""
    return request.resource == "leases"


def is_event(request):
    """Events, which tell people and steer nothing."""
    return request.resource == "events"


def split(requests):
    """Counts by kind: what steers, events, leases."""
    counts = {"requests": collections.Counter(), "events": collections.Counter(), "leases": collections.Counter()}
    for request in requests:
        group = "leases" if is_lease(request) else "events" if is_event(request) else "requests"
        counts[group][f"{request.kind()} {request.code}"] += 1
    return counts
